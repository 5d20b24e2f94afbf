# Puts the library into build/python, an environment of its own; says what is missing.
set -e
python3 -c 'import venv, ensurepip' || { echo 'missing: python3 with venv (apt-get install python3-venv)'; exit 1; }
[ -x build/python/bin/python ] || python3 -m venv build/python
build/python/bin/pip install --quiet python-magic==0.4.27
build/python/bin/python -c 'import magic; magic.detect_from_content(b"text")' ||
    { echo 'missing: the C library libmagic (apt-get install libmagic1)'; exit 1; }
