// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// A token for tests that keeps correct balances and does everything else wrong: it blocks accounts, stops, answers false or
/// nothing, burns all gas, answers with far too much data, and calls back while it moves money.
contract HostileToken {
    enum Mode { Honest, AnswersNothing, Reverts, AnswersFalse, BurnsGas, AnswersTooMuch }

    error InsufficientBalance();
    error InsufficientAllowance();
    error Blocked();
    error Stopped();

    string public constant symbol = "HOSTILE";
    uint8 public constant decimals = 6;
    Mode public mode;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => bool) public blocked;

    address private target;
    bytes private data;
    /// Calls back that were made, and those that went through.
    uint256 public attempts;
    uint256 public breaches;

    event Transfer(address indexed from, address indexed to, uint256 amount);

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function setMode(Mode mode_) external {
        mode = mode_;
    }

    function block_(address account, bool blocked_) external {
        blocked[account] = blocked_;
    }

    /// From now on every transfer that the target asks for first makes this call to it.
    function callBack(address target_, bytes calldata data_) external {
        target = target_;
        data = data_;
    }

    /// Makes a call in the token's own name.
    function act(address to, bytes calldata data_) external {
        (bool ok, bytes memory answer) = to.call(data_);
        if (ok) return;
        assembly {
            revert(add(answer, 32), mload(answer))
        }
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        if (mode == Mode.Reverts) revert Stopped();
        if (mode == Mode.AnswersFalse) return false;
        if (mode == Mode.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (mode == Mode.AnswersTooMuch) {
            assembly {
                return(0, 100000)
            }
        }
        _move(msg.sender, to, amount);
        if (mode == Mode.AnswersNothing) {
            assembly {
                return(0, 0)
            }
        }
        return true;
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        if (allowance[from][msg.sender] < amount) revert InsufficientAllowance();
        allowance[from][msg.sender] -= amount;
        _move(from, to, amount);
        return true;
    }

    function _move(address from, address to, uint256 amount) private {
        if (blocked[from] || blocked[to]) revert Blocked();
        if (balanceOf[from] < amount) revert InsufficientBalance();
        if (msg.sender == target) {
            attempts += 1;
            (bool ok,) = target.call(data);
            if (ok) breaches += 1;
        }
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        emit Transfer(from, to, amount);
    }
}
