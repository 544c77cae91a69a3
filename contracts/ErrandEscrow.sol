// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// Functions of ERC-8183. Hooks are optional there and not supported here; `optParams` is for hooks only.
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

/// Escrow for jobs between agents.
///
/// - Each job pays and refunds only what was escrowed for it. Fees, treasury and the silence rule are fixed at creation.
/// - Fees become credits that their owners withdraw. The provider's pay and the client's refund are sent immediately; a
///   transfer that fails becomes a credit too. No token state of one party can block the settlement of another.
/// - If nobody decides within the evaluation window after a delivery, anyone may have the provider paid (`claimRelease`),
///   or the client refunded if the job was created that way (`claimRefund`). The window stops while the contract is
///   paused, for at most MAX_PAUSE per job, so every job can end without the owner.
///
/// Data layout, functions and events are those of the ERC-8183 reference. The contract differs where that protects a party:
/// late deliveries are refused, silence after a delivery pays by default, only the client chooses the token (once), a client
/// may complete its own job, and a provider may reject, which gives up its pay.
contract ErrandEscrow is IERC8183 {
    enum JobStatus { Open, Funded, Submitted, Completed, Rejected, Expired }
    enum Silence { Release, Refund }

    /// The layout of the reference, field by field.
    struct Job {
        uint256 id;
        address client;
        address provider;
        address evaluator;
        string description;
        uint256 budget;
        uint256 expiredAt;
        JobStatus status;
        address hook;
        address paymentToken;
        /// Of the provider in an ERC-8004 registry, 0 for none.
        uint256 providerAgentId;
        uint256 submittedAt;
    }

    /// What the reference does not store: conditions fixed at creation, and the delivery.
    struct Terms {
        address treasury;
        uint16 platformFeeBP;
        uint16 evaluatorFeeBP;
        Silence silence;
        /// Value of `pausedSeconds` when the delivery was submitted.
        uint64 pausedBefore;
        bytes32 deliverable;
    }

    /// What a client asks for when it creates a job.
    struct Conditions {
        Silence silence;
        uint256 platformFeeBP;
        uint256 evaluatorFeeBP;
    }

    error InvalidJob();
    error WrongStatus();
    error Unauthorized();
    error ZeroAddress();
    error ExpiryTooShort();
    error ExpiryTooLong();
    error InvalidWindow();
    error ZeroBudget();
    error ProviderNotSet();
    error FeesTooHigh();
    error FeesChanged();
    error HookNotWhitelisted();
    error BudgetMismatch();
    error TokenAlreadySet();
    error ProviderCannotBeEvaluator();
    error ProviderCannotBeClient();
    error GracePeriodActive();
    error NotYetExpired();
    error DeadlinePassed();
    error SilenceReleases();
    error SilenceRefunds();
    error Paused();
    error TransferFailed();
    error UnexpectedFundedAmount();
    error InsufficientGas();
    error NoCredit();
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
    event PlatformFeePaid(uint256 indexed jobId, address indexed platformTreasury, uint256 amount);
    event EvaluatorFeePaid(uint256 indexed jobId, address indexed evaluator, uint256 amount);
    event Refunded(uint256 indexed jobId, address indexed client, uint256 amount);
    event PlatformFeeSet(uint256 feeBP, address indexed treasury);
    event EvaluatorFeeSet(uint256 feeBP);

    // Events beyond the reference.
    event SilenceReleased(uint256 indexed jobId);
    event Credited(address indexed account, address indexed token, uint256 indexed jobId, uint256 amount);
    event Withdrawn(address indexed account, address indexed token, uint256 amount);
    event PauseSet(bool paused);
    event OwnershipTransferStarted(address indexed previousOwner, address indexed newOwner);
    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    uint256 public constant BPS = 10_000;
    uint256 public constant MAX_FEE_BPS = 1000;
    uint256 public constant MAX_EXPIRY = 366 days;
    uint256 public constant MAX_EVALUATION = 30 days;
    /// The longest time that pauses add to the evaluation window of one job.
    uint256 public constant MAX_PAUSE = 30 days;
    /// Gas for sending a payment. A token that needs more leaves a credit, whose withdrawal has no limit.
    uint256 private constant SEND_GAS = 150_000;

    /// How long the evaluator has after a delivery, in seconds.
    uint256 public immutable EVALUATION_GRACE_PERIOD;
    uint256 public immutable minExpirySeconds;

    address public owner;
    address public pendingOwner;
    address public platformTreasury;
    uint256 public platformFeeBP;
    uint256 public evaluatorFeeBP;

    uint256 public jobCounter;
    mapping(uint256 => Job) public jobs;
    mapping(uint256 => Terms) private termsOf;
    /// What this job, and no other, has in the contract.
    mapping(uint256 => uint256) public escrowed;
    /// What an account can withdraw, by token.
    mapping(address => mapping(address => uint256)) public credits;
    /// All escrow and all credits in a token: the contract never has less of it than this.
    mapping(address => uint256) public owed;

    /// Start of the current pause, 0 while running.
    uint256 public pausedSince;
    uint256 private pausedTotal;
    bool private entered;

    modifier guarded() {
        if (entered) revert Reentered();
        entered = true;
        _;
        entered = false;
    }

    modifier running() {
        if (paused()) revert Paused();
        _;
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert Unauthorized();
        _;
    }

    constructor(address treasury, uint256 platformFeeBP_, uint256 evaluatorFeeBP_, uint256 minExpirySeconds_, uint256 evaluationSeconds) {
        if (minExpirySeconds_ > MAX_EXPIRY) revert ExpiryTooLong();
        if (evaluationSeconds == 0 || evaluationSeconds > MAX_EVALUATION) revert InvalidWindow();
        owner = msg.sender;
        emit OwnershipTransferred(address(0), msg.sender);
        minExpirySeconds = minExpirySeconds_;
        EVALUATION_GRACE_PERIOD = evaluationSeconds;
        _setFees(platformFeeBP_, evaluatorFeeBP_, treasury);
        emit PlatformFeeSet(platformFeeBP_, treasury);
        emit EvaluatorFeeSet(evaluatorFeeBP_);
    }

    // ---- Jobs

    function createJob(address provider, address evaluator, uint256 expiredAt, string calldata description, address hook, uint256 providerAgentId)
        external
        returns (uint256 jobId)
    {
        return _create(provider, evaluator, expiredAt, description, hook, providerAgentId, Silence.Release);
    }

    /// As createJob, for a client that chooses what silence after the delivery means. Reverts unless the fees are those given.
    function createJobWithTerms(
        address provider,
        address evaluator,
        uint256 expiredAt,
        string calldata description,
        address hook,
        uint256 providerAgentId,
        Conditions calldata conditions
    ) external returns (uint256 jobId) {
        if (conditions.platformFeeBP != platformFeeBP || conditions.evaluatorFeeBP != evaluatorFeeBP) revert FeesChanged();
        return _create(provider, evaluator, expiredAt, description, hook, providerAgentId, conditions.silence);
    }

    function setProvider(uint256 jobId, address provider, uint256 agentId) external running guarded {
        Job storage job = _job(jobId, JobStatus.Open);
        if (msg.sender != job.client) revert Unauthorized();
        if (job.provider != address(0)) revert WrongStatus();
        if (provider == address(0)) revert ZeroAddress();
        if (provider == job.client) revert ProviderCannotBeClient();
        if (provider == job.evaluator) revert ProviderCannotBeEvaluator();
        job.provider = provider;
        job.providerAgentId = agentId;
        emit ProviderSet(jobId, provider, agentId);
    }

    /// An offer by either side. It binds nobody: the client names the amount again when it funds.
    function setBudget(uint256 jobId, address token, uint256 amount, bytes calldata) external running guarded {
        Job storage job = _job(jobId, JobStatus.Open);
        bool isClient = msg.sender == job.client;
        if (!isClient && msg.sender != job.provider) revert Unauthorized();
        if (token == address(0)) revert ZeroAddress();
        if (amount == 0) revert ZeroBudget();
        // A party that could change the token could swap it for a worthless one after the price was agreed.
        if (token != job.paymentToken) {
            if (!isClient) revert Unauthorized();
            if (job.paymentToken != address(0)) revert TokenAlreadySet();
            job.paymentToken = token;
        }
        job.budget = amount;
        emit BudgetSet(jobId, token, amount);
    }

    /// Takes exactly `expectedBudget`, or reverts: an offer that the client has not seen is never funded.
    function fund(uint256 jobId, uint256 expectedBudget, bytes calldata) external running guarded {
        Job storage job = _job(jobId, JobStatus.Open);
        if (msg.sender != job.client) revert Unauthorized();
        if (job.provider == address(0)) revert ProviderNotSet();
        if (job.budget == 0) revert ZeroBudget();
        if (job.budget != expectedBudget) revert BudgetMismatch();
        if (block.timestamp >= job.expiredAt) revert DeadlinePassed();
        job.status = JobStatus.Funded;
        escrowed[jobId] = expectedBudget;
        owed[job.paymentToken] += expectedBudget;
        _pull(job.paymentToken, msg.sender, expectedBudget);
        emit JobFunded(jobId, msg.sender, expectedBudget);
    }

    function submit(uint256 jobId, bytes32 deliverable, bytes calldata) external running guarded {
        Job storage job = _job(jobId, JobStatus.Funded);
        if (msg.sender != job.provider) revert Unauthorized();
        if (block.timestamp >= job.expiredAt) revert DeadlinePassed();
        job.status = JobStatus.Submitted;
        job.submittedAt = block.timestamp;
        termsOf[jobId].deliverable = deliverable;
        termsOf[jobId].pausedBefore = uint64(pausedSeconds());
        emit JobSubmitted(jobId, msg.sender, deliverable);
    }

    /// The evaluator decides; a client may always release its own money.
    function complete(uint256 jobId, bytes32 reason, bytes calldata) external running guarded {
        Job storage job = _job(jobId, JobStatus.Submitted);
        if (msg.sender != job.evaluator && msg.sender != job.client) revert Unauthorized();
        if (block.timestamp >= evaluationEnd(jobId)) revert DeadlinePassed();
        _release(job, msg.sender, reason);
    }

    /// While open: client or provider. While money is held: the evaluator, or the provider, who gives up its pay. Never paused.
    function reject(uint256 jobId, bytes32 reason, bytes calldata) external guarded {
        Job storage job = _known(jobId);
        if (job.status == JobStatus.Open) {
            if (msg.sender != job.client && msg.sender != job.provider) revert Unauthorized();
        } else if (job.status == JobStatus.Funded || job.status == JobStatus.Submitted) {
            if (msg.sender != job.evaluator && msg.sender != job.provider) revert Unauthorized();
            // The pay is the provider's once the window is over: a late rejection must not take it back.
            bool isLate = job.status == JobStatus.Submitted && block.timestamp >= evaluationEnd(jobId);
            if (isLate && msg.sender != job.provider && termsOf[jobId].silence == Silence.Release) revert DeadlinePassed();
        } else {
            revert WrongStatus();
        }
        job.status = JobStatus.Rejected;
        _refund(job);
        emit JobRejected(jobId, msg.sender, reason);
    }

    /// Anyone, once nothing was funded or delivered in time, or once the window is over and silence refunds. Never paused.
    function claimRefund(uint256 jobId) external guarded {
        Job storage job = _known(jobId);
        if (job.status == JobStatus.Submitted) {
            if (block.timestamp < evaluationEnd(jobId)) revert GracePeriodActive();
            if (termsOf[jobId].silence == Silence.Release) revert SilenceReleases();
        } else if (job.status == JobStatus.Open || job.status == JobStatus.Funded) {
            if (block.timestamp < job.expiredAt) revert NotYetExpired();
        } else {
            revert WrongStatus();
        }
        job.status = JobStatus.Expired;
        _refund(job);
        emit JobExpired(jobId);
    }

    /// Anyone, once the window is over and silence pays the provider. Never paused: a pause already stopped the window.
    function claimRelease(uint256 jobId) external guarded {
        Job storage job = _job(jobId, JobStatus.Submitted);
        if (block.timestamp < evaluationEnd(jobId)) revert GracePeriodActive();
        if (termsOf[jobId].silence == Silence.Refund) revert SilenceRefunds();
        emit SilenceReleased(jobId);
        _release(job, job.evaluator, bytes32(0));
    }

    /// Sends an account its credit. Anyone may call it; the money only ever goes to the account itself. Never paused.
    function withdraw(address token, address account) external guarded {
        uint256 amount = credits[account][token];
        if (amount == 0) revert NoCredit();
        credits[account][token] = 0;
        owed[token] -= amount;
        emit Withdrawn(account, token, amount);
        _call(token, abi.encodeCall(IToken.transfer, (account, amount)));
    }

    // ---- Views

    /// All fields are zero for a number that no job has.
    function getJob(uint256 jobId) external view returns (Job memory) {
        return jobs[jobId];
    }

    function getTerms(uint256 jobId) external view returns (Terms memory) {
        return termsOf[jobId];
    }

    /// The later of the expiry and the evaluation window, plus the time that the contract was paused since the delivery.
    function evaluationEnd(uint256 jobId) public view returns (uint256) {
        Job storage job = jobs[jobId];
        uint256 end = job.submittedAt + EVALUATION_GRACE_PERIOD;
        if (end < job.expiredAt) end = job.expiredAt;
        if (job.submittedAt == 0) return end;
        uint256 stopped = pausedSeconds() - termsOf[jobId].pausedBefore;
        return end + (stopped < MAX_PAUSE ? stopped : MAX_PAUSE);
    }

    function paused() public view returns (bool) {
        return pausedSince != 0;
    }

    /// How long the contract was paused so far, in all.
    function pausedSeconds() public view returns (uint256) {
        return pausedSince == 0 ? pausedTotal : pausedTotal + (block.timestamp - pausedSince);
    }

    /// Only the zero address, which stands for no hook.
    function whitelistedHooks(address hook) public pure returns (bool) {
        return hook == address(0);
    }

    // ---- Owner

    /// For jobs created later.
    function setPlatformFee(uint256 feeBP, address treasury) external onlyOwner {
        _setFees(feeBP, evaluatorFeeBP, treasury);
        emit PlatformFeeSet(feeBP, treasury);
    }

    /// For jobs created later.
    function setEvaluatorFee(uint256 feeBP) external onlyOwner {
        _setFees(platformFeeBP, feeBP, platformTreasury);
        emit EvaluatorFeeSet(feeBP);
    }

    function setPaused(bool pause) external onlyOwner {
        if (pause == paused()) return;
        pausedTotal = pausedSeconds();
        pausedSince = pause ? block.timestamp : 0;
        emit PauseSet(pause);
    }

    /// The new owner has to accept it. The zero address withdraws the offer.
    function transferOwnership(address newOwner) external onlyOwner {
        pendingOwner = newOwner;
        emit OwnershipTransferStarted(owner, newOwner);
    }

    function acceptOwnership() external {
        if (msg.sender != pendingOwner) revert Unauthorized();
        emit OwnershipTransferred(owner, msg.sender);
        owner = msg.sender;
        pendingOwner = address(0);
    }

    // ---- Internals

    function _create(
        address provider,
        address evaluator,
        uint256 expiredAt,
        string calldata description,
        address hook,
        uint256 providerAgentId,
        Silence silence
    ) private running guarded returns (uint256 jobId) {
        if (evaluator == address(0)) revert ZeroAddress();
        if (!whitelistedHooks(hook)) revert HookNotWhitelisted();
        if (expiredAt < block.timestamp + minExpirySeconds) revert ExpiryTooShort();
        if (expiredAt > block.timestamp + MAX_EXPIRY) revert ExpiryTooLong();
        if (provider == msg.sender) revert ProviderCannotBeClient();
        if (provider == evaluator) revert ProviderCannotBeEvaluator();
        jobId = ++jobCounter;
        Job storage job = jobs[jobId];
        job.id = jobId;
        job.client = msg.sender;
        job.provider = provider;
        job.evaluator = evaluator;
        job.description = description;
        job.expiredAt = expiredAt;
        if (provider != address(0)) job.providerAgentId = providerAgentId;
        Terms storage terms = termsOf[jobId];
        terms.treasury = platformTreasury;
        terms.platformFeeBP = uint16(platformFeeBP);
        terms.evaluatorFeeBP = uint16(evaluatorFeeBP);
        terms.silence = silence;
        emit JobCreated(jobId, msg.sender, provider, evaluator, expiredAt, hook);
    }

    function _setFees(uint256 platformFeeBP_, uint256 evaluatorFeeBP_, address treasury) private {
        if (treasury == address(0)) revert ZeroAddress();
        if (platformFeeBP_ > MAX_FEE_BPS || evaluatorFeeBP_ > MAX_FEE_BPS - platformFeeBP_) revert FeesTooHigh();
        platformFeeBP = platformFeeBP_;
        evaluatorFeeBP = evaluatorFeeBP_;
        platformTreasury = treasury;
    }

    function _known(uint256 jobId) private view returns (Job storage job) {
        job = jobs[jobId];
        if (job.id == 0) revert InvalidJob();
    }

    function _job(uint256 jobId, JobStatus wanted) private view returns (Job storage job) {
        job = _known(jobId);
        if (job.status != wanted) revert WrongStatus();
    }

    /// Fees are credited, the rest goes to the provider. All state is final before the token is called.
    function _release(Job storage job, address decider, bytes32 reason) private {
        job.status = JobStatus.Completed;
        Terms storage terms = termsOf[job.id];
        uint256 amount = _take(job.id);
        uint256 platformFee = amount * terms.platformFeeBP / BPS;
        uint256 evaluatorFee = amount * terms.evaluatorFeeBP / BPS;
        uint256 net = amount - platformFee - evaluatorFee;
        if (platformFee > 0) {
            _credit(job, terms.treasury, platformFee);
            emit PlatformFeePaid(job.id, terms.treasury, platformFee);
        }
        if (evaluatorFee > 0) {
            _credit(job, job.evaluator, evaluatorFee);
            emit EvaluatorFeePaid(job.id, job.evaluator, evaluatorFee);
        }
        _pay(job, job.provider, net);
        emit JobCompleted(job.id, decider, reason);
        emit PaymentReleased(job.id, job.provider, net);
    }

    /// Pays back what this job escrowed, which is nothing for a job that was never funded.
    function _refund(Job storage job) private {
        uint256 amount = _take(job.id);
        if (amount == 0) return;
        _pay(job, job.client, amount);
        emit Refunded(job.id, job.client, amount);
    }

    function _take(uint256 jobId) private returns (uint256 amount) {
        amount = escrowed[jobId];
        escrowed[jobId] = 0;
    }

    function _credit(Job storage job, address account, uint256 amount) private {
        credits[account][job.paymentToken] += amount;
        emit Credited(account, job.paymentToken, job.id, amount);
    }

    function _pay(Job storage job, address to, uint256 amount) private {
        address token = job.paymentToken;
        owed[token] -= amount;
        if (_trySend(token, to, amount)) return;
        owed[token] += amount;
        _credit(job, to, amount);
    }

    /// False for a token that refuses, answers false, uses too much gas or is gone. Reads at most one word of its answer.
    function _trySend(address token, address to, uint256 amount) private returns (bool sent) {
        bytes memory data = abi.encodeCall(IToken.transfer, (to, amount));
        uint256 gasLimit = SEND_GAS;
        // Otherwise a caller could choose the gas so that only the transfer fails. 1/64 stays here when a call is made.
        if (gasleft() < SEND_GAS + SEND_GAS / 32) revert InsufficientGas();
        assembly ("memory-safe") {
            sent := call(gasLimit, token, 0, add(data, 32), mload(data), 0, 32)
            if sent {
                switch returndatasize()
                case 0 { sent := gt(extcodesize(token), 0) }
                default { sent := and(gt(returndatasize(), 31), eq(mload(0), 1)) }
            }
        }
    }

    /// A token that keeps a part of what it moves would let one job live on the escrow of the others.
    function _pull(address token, address from, uint256 amount) private {
        if (token.code.length == 0) revert TransferFailed();
        uint256 before = IToken(token).balanceOf(address(this));
        _call(token, abi.encodeCall(IToken.transferFrom, (from, address(this), amount)));
        uint256 found = IToken(token).balanceOf(address(this));
        if (found != before + amount || found < owed[token]) revert UnexpectedFundedAmount();
    }

    /// Accepts tokens that answer nothing and tokens that answer true.
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
