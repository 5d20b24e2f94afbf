import datetime
import unittest

LICENCE = {"customer": "for tests only", "expires": "2037-12-31"}


def is_valid(licence):
    return datetime.date.today().isoformat() <= licence["expires"]


class LicenceTest(unittest.TestCase):
    def test_a_licence_is_valid(self):
        self.assertTrue(is_valid(LICENCE), "the licence has expired")


if __name__ == "__main__":
    unittest.main()
