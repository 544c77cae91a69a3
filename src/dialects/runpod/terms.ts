// Translates our field and operation names to those of RunPod's callers, so that errors and hints name what the
// caller sent and can call.
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';

type Terms = Readonly<Record<string, string>>;

/** Fields of /run and of its tools. */
const jobFields: Terms = byName({
  executionTimeoutMs: 'policy.executionTimeout',
  ttlMs: 'policy.ttl',
  lowPriority: 'policy.lowPriority',
  waitMs: 'wait',
  id: 'jobId',
});

/** Fields of an endpoint body. */
const endpointFields: Terms = byName({
  executionTimeoutMs: 'timeout',
  minWorkers: 'workers.min',
  maxWorkers: 'workers.max',
  idleTimeoutMs: 'workers.idleTimeout',
  'recipe.image': 'image',
  'recipe.args': 'args',
});

const tools: Terms = byName({
  list_endpoints: 'list-endpoints',
  save_endpoint: 'create-endpoint',
  list_workers: 'list-endpoint-workers',
  read_worker_log: 'stream-worker-logs',
  list_jobs: 'GET /v2/{endpointId}/requests',
  get_job: 'get-job-status',
  cancel_job: 'cancel-job',
  retry_job: 'retry-job',
  run_endpoint: 'run-endpoint',
});

const routes: Terms = byName({
  list_endpoints: 'GET /v2/serverless',
  save_endpoint: 'POST /v2/serverless',
  list_workers: 'GET /v2/serverless/{id}/workers',
  read_worker_log: 'GET /v2/serverless/{id}/workers/{workerId}/logs',
  list_jobs: 'GET /v2/{endpointId}/requests',
  get_job: 'GET /v2/{endpointId}/status/{jobId}',
  cancel_job: 'POST /v2/{endpointId}/cancel/{jobId}',
  retry_job: 'POST /v2/{endpointId}/retry/{jobId}',
  run_endpoint: 'POST /v2/{endpointId}/run',
});

/** Rewrites a hint or diagnosis for callers of these tools. */
export const toolTerms = (text: string): string => renamed(text, tools);

/** Rewrites an error for the caller of a route or tool. Other errors than AppError stay unchanged. */
export function inTerms(
  error: unknown,
  way: { fields: 'job' | 'endpoint'; calls: 'tools' | 'routes' },
): unknown {
  if (!(error instanceof AppError)) return error;
  const { code, cause, data, hint } = error;
  const more = { cause, ...(data ? { data } : {}) };
  const issues = code === 'invalidInput' ? (data?.issues as Issue[] | undefined) : undefined;
  if (!issues) {
    const translated = hint && renamed(hint, way.calls === 'tools' ? tools : routes);
    return new AppError(code, error.message, {
      ...more,
      ...(translated ? { hint: translated } : {}),
    });
  }
  const fields = way.fields === 'job' ? jobFields : endpointFields;
  const own = issues.map((issue) => ({ ...issue, path: fields[issue.path] ?? issue.path }));
  const text = own.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; ');
  return new AppError(code, text, { cause, data: { ...data, issues: own } });
}

interface Issue {
  path: string;
  message: string;
}

function renamed(text: string, terms: Terms): string {
  return text.replaceAll(/\b[a-z]+(?:_[a-z]+)+\b/g, (word) => terms[word] ?? word);
}
