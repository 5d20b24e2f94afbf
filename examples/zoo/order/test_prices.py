"""A suite in which `test_discount` leaves its discount behind, so that `test_total` fails after it."""
prices = {"lamp": 20, "chair": 80}


def test_total():
    assert sum(prices.values()) == 100


def test_discount():
    prices["lamp"] = prices["lamp"] // 2
    assert prices["lamp"] == 10


def test_names():
    assert set(prices) == {"lamp", "chair"}
