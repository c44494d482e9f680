"""Which of several controllers is asked."""

from srtm.servers import Servers


def test_all_are_asked_in_turn_from_the_one_that_answered_last():
    servers = Servers("a:1, http://b:2/,c:3,")
    assert list(servers.turn()) == ["http://a:1", "http://b:2", "http://c:3"]
    servers.answered("http://b:2")
    assert list(servers.turn()) == ["http://b:2", "http://c:3", "http://a:1"]
    assert list(Servers("").turn()) == ["http://"]
    assert list(Servers("a:1,http://b:2", "https").turn()) == ["https://a:1", "http://b:2"]


def test_the_leader_is_next_and_nobody_is_asked_twice():
    servers = Servers("a,b,c")
    turn = servers.turn()
    assert next(turn) == "http://a"
    turn.led_to("c")
    assert next(turn) == "http://c"
    turn.led_to("http://a/")
    turn.led_to("http://d")
    assert list(turn) == ["http://d", "http://b"]
    servers.answered("http://d")
    assert list(servers.turn()) == ["http://d", "http://a", "http://b", "http://c"]


def test_controllers_that_name_ever_others_end():
    turn, asked = Servers("a").turn(), 0
    for _ in turn:
        asked += 1
        turn.led_to(f"x{asked}")
    assert asked == 5
