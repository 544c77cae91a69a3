// The server instructions that every client receives (under 2 kB). Some clients show their model only the first paragraph,
// so it states what this server is for and which tools to start with.
export const instructions = `Errand runs shell commands and other long work as durable background jobs; prefer run_command to your \
own shell for builds, tests, installs, dev servers and anything over 10 seconds. Jobs outlive tool timeouts, restarts and crashes of \
this client. wait_for_jobs waits for jobs and returns their results and error lines. read_output searches and pages their full output.

- A command that ends within waitMs returns its output in the same call. A longer one returns a job id (job_…), or a task if your \
client supports tasks. The id works from any client at any time.
- Do not poll or sleep. wait_for_jobs returns when a job ends, prints a text, opens a port or goes quiet. If it returns \
done: false, the job is still running: do other work or call it again. Waiting never changes a job.
- An exit code other than 0 is a failed job, not a tool error: read its error lines.
- get_job shows the state of any job. list_jobs finds jobs whose id you do not have, including those of earlier sessions.
- cancel_job stops a job with all its processes. retry_job runs a failed one again.
- send_input answers prompts and drives REPLs.
- An error says what happened and what to do next. If it is marked retryable, the same call may work later.`;
