// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// What ERC-8183 asks for. Hooks are optional there and not taken here; `optParams` are for hooks only.
interface IERC8183 {
    function createJob(address provider, address evaluator, uint256 expiredAt, string calldata description, address hook, uint256 providerAgentId)
        external
        returns (uint256 jobId);
    function setProvider(uint256 jobId, address provider, uint256 agentId) external;
    function setBudget(uint256 jobId, address token, uint256 amount, bytes calldata optParams) external;
    function fund(uint256 jobId, uint256 expectedBudget, bytes calldata optParams) external;
    function submit(uint256 jobId, bytes32 deliverable, bytes calldata optParams) external;
    function complete(uint256 jobId, bytes32 reason, bytes calldata optParams) external;
    function reject(uint256 jobId, bytes32 reason, bytes calldata optParams) external;
    function claimRefund(uint256 jobId) external;
}

/// Escrow of agent jobs. Each job pays and refunds only what was escrowed for itself; fees are fixed when the job is
/// created; nothing is delivered after the expiry; the evaluator has a window; a pause never stops money from going back.
/// Wider than ERC-8183 in two places, both at the cost of whoever calls: a client may complete its own job with its own
/// money, and a provider may reject, which gives up the pay.
contract ErrandEscrow is IERC8183 {
    enum Status { Open, Funded, Submitted, Completed, Rejected, Expired }

    struct Job {
        uint256 id;
        address client;
        address provider;
        address evaluator;
        address hook;
        address paymentToken;
        uint256 budget;
        uint256 expiredAt;
        uint256 submittedAt;
        Status status;
        uint16 platformBps;
        uint16 evaluatorBps;
        /// Of the provider in an ERC-8004 registry, 0 for none; kept for others to read.
        uint256 providerAgentId;
        bytes32 deliverable;
        string description;
    }

    error InvalidJob();
    error WrongStatus();
    error Unauthorized();
    error ZeroAddress();
    error ExpiryTooShort();
    error ZeroBudget();
    error ProviderNotSet();
    error FeesTooHigh();
    error HookNotWhitelisted();
    error BudgetMismatch();
    error ProviderCannotBeEvaluator();
    error ProviderCannotBeClient();
    error GracePeriodActive();
    error NotYetExpired();
    error DeadlinePassed();
    error Paused();
    error TransferFailed();
    error UnexpectedFundedAmount();
    error Reentered();

    event JobCreated(uint256 indexed jobId, address indexed client, address indexed provider, address evaluator, uint256 expiredAt, address hook);
    event ProviderSet(uint256 indexed jobId, address indexed provider, uint256 agentId);
    event BudgetSet(uint256 indexed jobId, address indexed token, uint256 amount);
    event JobFunded(uint256 indexed jobId, address indexed client, uint256 amount);
    event JobSubmitted(uint256 indexed jobId, address indexed provider, bytes32 deliverable);
    event JobCompleted(uint256 indexed jobId, address indexed evaluator, bytes32 reason);
    event JobRejected(uint256 indexed jobId, address indexed rejector, bytes32 reason);
    event JobExpired(uint256 indexed jobId);
    event PaymentReleased(uint256 indexed jobId, address indexed provider, uint256 amount);
    event Refunded(uint256 indexed jobId, address indexed client, uint256 amount);
    event PlatformFeePaid(uint256 indexed jobId, address indexed treasury, uint256 amount);
    event EvaluatorFeePaid(uint256 indexed jobId, address indexed evaluator, uint256 amount);
    event FeesSet(uint16 platformBps, uint16 evaluatorBps, address treasury);
    event PauseSet(bool paused);

    uint16 public constant MAX_FEE_BPS = 1000;
    uint256 public constant BPS = 10_000;

    address public owner;
    address public treasury;
    uint16 public platformBps;
    uint16 public evaluatorBps;
    bool public paused;
    uint256 public immutable minExpirySeconds;
    /// Time an evaluator has after a submission before silence gives the money back.
    uint256 public immutable evaluationSeconds;
    uint256 public jobCount;
    mapping(uint256 => Job) private jobs;
    /// What this job, and no other, has in the contract.
    mapping(uint256 => uint256) public escrowed;
    uint256 private entered = 1;

    modifier guarded() {
        if (entered == 2) revert Reentered();
        entered = 2;
        _;
        entered = 1;
    }

    modifier running() {
        if (paused) revert Paused();
        _;
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert Unauthorized();
        _;
    }

    constructor(address treasury_, uint16 platformBps_, uint16 evaluatorBps_, uint256 minExpirySeconds_, uint256 evaluationSeconds_) {
        owner = msg.sender;
        minExpirySeconds = minExpirySeconds_;
        evaluationSeconds = evaluationSeconds_;
        _setFees(platformBps_, evaluatorBps_, treasury_);
    }

    function createJob(address provider, address evaluator, uint256 expiredAt, string calldata description, address hook, uint256 providerAgentId)
        external
        running
        returns (uint256 jobId)
    {
        if (evaluator == address(0)) revert ZeroAddress();
        if (hook != address(0)) revert HookNotWhitelisted();
        if (expiredAt < block.timestamp + minExpirySeconds) revert ExpiryTooShort();
        if (provider == msg.sender) revert ProviderCannotBeClient();
        if (provider == evaluator) revert ProviderCannotBeEvaluator();
        jobId = ++jobCount;
        Job storage job = jobs[jobId];
        job.id = jobId;
        job.client = msg.sender;
        job.provider = provider;
        job.evaluator = evaluator;
        job.expiredAt = expiredAt;
        job.description = description;
        if (provider != address(0)) job.providerAgentId = providerAgentId;
        job.platformBps = platformBps;
        job.evaluatorBps = evaluatorBps;
        emit JobCreated(jobId, msg.sender, provider, evaluator, expiredAt, hook);
    }

    function setProvider(uint256 jobId, address provider, uint256 agentId) external running {
        Job storage job = _job(jobId, Status.Open);
        if (msg.sender != job.client) revert Unauthorized();
        if (provider == address(0)) revert ZeroAddress();
        if (job.provider != address(0)) revert WrongStatus();
        if (provider == job.client) revert ProviderCannotBeClient();
        if (provider == job.evaluator) revert ProviderCannotBeEvaluator();
        job.provider = provider;
        job.providerAgentId = agentId;
        emit ProviderSet(jobId, provider, agentId);
    }

    function setBudget(uint256 jobId, address token, uint256 amount, bytes calldata) external running {
        Job storage job = _job(jobId, Status.Open);
        if (msg.sender != job.client && msg.sender != job.provider) revert Unauthorized();
        if (token == address(0)) revert ZeroAddress();
        if (amount == 0) revert ZeroBudget();
        // Only the client names the token: a provider that could would be paid in one of its own making.
        if (msg.sender != job.client && token != job.paymentToken) revert Unauthorized();
        job.paymentToken = token;
        job.budget = amount;
        emit BudgetSet(jobId, token, amount);
    }

    function fund(uint256 jobId, uint256 expectedBudget, bytes calldata) external running guarded {
        Job storage job = _job(jobId, Status.Open);
        if (msg.sender != job.client) revert Unauthorized();
        if (job.provider == address(0)) revert ProviderNotSet();
        if (job.budget == 0) revert ZeroBudget();
        if (job.budget != expectedBudget) revert BudgetMismatch();
        if (block.timestamp >= job.expiredAt) revert DeadlinePassed();
        job.status = Status.Funded;
        escrowed[jobId] = expectedBudget;
        _pull(job.paymentToken, msg.sender, expectedBudget);
        emit JobFunded(jobId, msg.sender, expectedBudget);
    }

    function submit(uint256 jobId, bytes32 deliverable, bytes calldata) external running {
        Job storage job = _job(jobId, Status.Funded);
        if (msg.sender != job.provider) revert Unauthorized();
        if (block.timestamp >= job.expiredAt) revert DeadlinePassed();
        job.status = Status.Submitted;
        job.submittedAt = block.timestamp;
        job.deliverable = deliverable;
        emit JobSubmitted(jobId, msg.sender, deliverable);
    }

    function complete(uint256 jobId, bytes32 reason, bytes calldata) external running guarded {
        Job storage job = _job(jobId, Status.Submitted);
        // A client may always let its own money go; the evaluator decides for everybody else.
        if (msg.sender != job.evaluator && msg.sender != job.client) revert Unauthorized();
        if (block.timestamp >= evaluationEnd(jobId)) revert DeadlinePassed();
        job.status = Status.Completed;
        uint256 amount = escrowed[jobId];
        escrowed[jobId] = 0;
        uint256 platformPart = amount * job.platformBps / BPS;
        uint256 evaluatorPart = amount * job.evaluatorBps / BPS;
        uint256 providerPart = amount - platformPart - evaluatorPart;
        if (platformPart > 0) {
            _push(job.paymentToken, treasury, platformPart);
            emit PlatformFeePaid(jobId, treasury, platformPart);
        }
        if (evaluatorPart > 0) {
            _push(job.paymentToken, job.evaluator, evaluatorPart);
            emit EvaluatorFeePaid(jobId, job.evaluator, evaluatorPart);
        }
        _push(job.paymentToken, job.provider, providerPart);
        emit JobCompleted(jobId, msg.sender, reason);
        emit PaymentReleased(jobId, job.provider, providerPart);
    }

    /// Client or provider while open; evaluator or provider (who gives up the pay) while money is held.
    function reject(uint256 jobId, bytes32 reason, bytes calldata) external guarded {
        Job storage job = jobs[jobId];
        if (job.id == 0) revert InvalidJob();
        if (job.status == Status.Open) {
            if (msg.sender != job.client && msg.sender != job.provider) revert Unauthorized();
        } else if (job.status == Status.Funded || job.status == Status.Submitted) {
            if (msg.sender != job.evaluator && msg.sender != job.provider) revert Unauthorized();
        } else {
            revert WrongStatus();
        }
        job.status = Status.Rejected;
        emit JobRejected(jobId, msg.sender, reason);
        _refund(job);
    }

    /// Anybody, once the deadline of the present stage has passed. Never paused.
    function claimRefund(uint256 jobId) external guarded {
        Job storage job = jobs[jobId];
        if (job.id == 0) revert InvalidJob();
        if (job.status == Status.Submitted) {
            if (block.timestamp < evaluationEnd(jobId)) revert GracePeriodActive();
        } else if (job.status == Status.Open || job.status == Status.Funded) {
            if (block.timestamp < job.expiredAt) revert NotYetExpired();
        } else {
            revert WrongStatus();
        }
        job.status = Status.Expired;
        emit JobExpired(jobId);
        _refund(job);
    }

    function getJob(uint256 jobId) external view returns (Job memory) {
        if (jobs[jobId].id == 0) revert InvalidJob();
        return jobs[jobId];
    }

    /// The later of the job's expiry and the evaluator's time after the submission.
    function evaluationEnd(uint256 jobId) public view returns (uint256) {
        Job storage job = jobs[jobId];
        uint256 end = job.submittedAt + evaluationSeconds;
        return end > job.expiredAt ? end : job.expiredAt;
    }

    function setFees(uint16 platformBps_, uint16 evaluatorBps_, address treasury_) external onlyOwner {
        _setFees(platformBps_, evaluatorBps_, treasury_);
    }

    function setPaused(bool paused_) external onlyOwner {
        paused = paused_;
        emit PauseSet(paused_);
    }

    function transferOwnership(address owner_) external onlyOwner {
        if (owner_ == address(0)) revert ZeroAddress();
        owner = owner_;
    }

    function _setFees(uint16 platformBps_, uint16 evaluatorBps_, address treasury_) private {
        if (treasury_ == address(0)) revert ZeroAddress();
        if (uint256(platformBps_) + evaluatorBps_ > MAX_FEE_BPS) revert FeesTooHigh();
        platformBps = platformBps_;
        evaluatorBps = evaluatorBps_;
        treasury = treasury_;
        emit FeesSet(platformBps_, evaluatorBps_, treasury_);
    }

    function _job(uint256 jobId, Status wanted) private view returns (Job storage job) {
        job = jobs[jobId];
        if (job.id == 0) revert InvalidJob();
        if (job.status != wanted) revert WrongStatus();
    }

    /// Pays back what this job escrowed, which is nothing for a job that was never funded.
    function _refund(Job storage job) private {
        uint256 amount = escrowed[job.id];
        if (amount == 0) return;
        escrowed[job.id] = 0;
        _push(job.paymentToken, job.client, amount);
        emit Refunded(job.id, job.client, amount);
    }

    /// A token that keeps a part of what it moves would let one job live on the escrow of the others.
    function _pull(address token, address from, uint256 amount) private {
        if (token.code.length == 0) revert TransferFailed();
        uint256 before = IToken(token).balanceOf(address(this));
        _call(token, abi.encodeCall(IToken.transferFrom, (from, address(this), amount)));
        if (IToken(token).balanceOf(address(this)) != before + amount) revert UnexpectedFundedAmount();
    }

    function _push(address token, address to, uint256 amount) private {
        _call(token, abi.encodeCall(IToken.transfer, (to, amount)));
    }

    /// Tokens that answer nothing and tokens that answer true are both fine.
    function _call(address token, bytes memory data) private {
        (bool ok, bytes memory answer) = token.call(data);
        if (!ok) {
            if (answer.length == 0) revert TransferFailed();
            assembly {
                revert(add(answer, 32), mload(answer))
            }
        }
        if (answer.length > 0 && !abi.decode(answer, (bool))) revert TransferFailed();
    }
}
