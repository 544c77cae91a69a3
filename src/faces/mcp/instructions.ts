// What every client is told about the server as a whole (under 2 kB): how the tools play together.
export const instructions = `Errand runs long work as durable jobs: builds, tests, dev servers, crawls, GPU calls, hired agents. \
A job goes on when you, this client or the server stop; its id (job_…) works from any client, any time.

- Start work with the tool of its kind (run_command for shell commands). A short command answers in the same call; \
longer ones answer with a job id, or as a task if your client supports tasks.
- Do not poll in a loop. Call wait_for_jobs: it returns at the end, on text, port or silence, or after at most 50 s \
with "still running"; then do other work or call it again. Waiting never changes the job.
- Read output with read_output: tail first, then grep or errors, then ranges by cursor. Never ask for everything.
- get_job tells state, exit code and result of any job of any kind; list_jobs finds jobs you have no id for, also \
those of earlier sessions.
- A command that ended with an exit code other than 0 is a job that failed, not a tool error: read its output.
- cancel_job ends a job and all its processes; retry_job opens a new attempt of one that is over.
- An error says what happened and what to do next; codes marked retryable may work later unchanged.`;
