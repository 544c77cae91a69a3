// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IERC20Like {
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// The known fault of the ERC-8183 reference, alone: a refund pays the job's budget whether or not it was ever
/// escrowed. Tests run the attack on this and on ErrandEscrow, with the same calls.
contract FaultyEscrow {
    struct Job {
        address client;
        address token;
        uint256 budget;
        uint256 expiredAt;
        uint8 status;
    }

    uint256 public jobCounter;
    mapping(uint256 => Job) public jobs;

    function createJob(address, address, uint256 expiredAt, string calldata, address, uint256) external returns (uint256 jobId) {
        jobId = ++jobCounter;
        jobs[jobId].client = msg.sender;
        jobs[jobId].expiredAt = expiredAt;
    }

    function setBudget(uint256 jobId, address token, uint256 amount, bytes calldata) external {
        require(jobs[jobId].client == msg.sender && jobs[jobId].status == 0);
        jobs[jobId].token = token;
        jobs[jobId].budget = amount;
    }

    function fund(uint256 jobId, uint256 expectedBudget, bytes calldata) external {
        Job storage job = jobs[jobId];
        require(job.client == msg.sender && job.status == 0 && job.budget == expectedBudget);
        job.status = 1;
        IERC20Like(job.token).transferFrom(msg.sender, address(this), job.budget);
    }

    function claimRefund(uint256 jobId) external {
        Job storage job = jobs[jobId];
        require(job.status < 3 && block.timestamp >= job.expiredAt);
        job.status = 5;
        IERC20Like(job.token).transfer(job.client, job.budget);
    }
}
