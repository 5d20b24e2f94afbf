# Runs after the other parts.
try:
    _provoke_chain()
finally:
    _provoke_install()
