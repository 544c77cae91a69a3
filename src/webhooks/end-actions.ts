// What a subscription can do instead of a request to a URL: show a desktop notification, or start a command that the
// operator approved in the settings. The command runs as a job of its own, so its output and exit code are kept.
import { AppError } from '../errors.ts';
import { runCommand } from '../contracts/command.ts';
import type { Contract, InputOf, OutputOf } from '../operation.ts';
import { ownValue } from '../runtime/by-name.ts';
import { isRecord, parseJson } from '../runtime/json.ts';
import type { Notice } from '../runtime/notification.ts';
import type { WebhookSender } from './sender.ts';

/** A command that callers may name as `run:NAME`. */
interface EndCommand {
  argv: string[];
  cwd?: string | undefined;
  timeoutMs?: number | undefined;
  secrets: string[];
}

export type EndCommands = Readonly<Record<string, EndCommand>>;

interface EndActionDeps {
  commands: EndCommands;
  notify(notice: Notice): Promise<void>;
  /** Calls an operation as the server itself. */
  call<C extends Contract>(contract: C, input: InputOf<C>): Promise<OutputOf<C>>;
}

/** The environment of the client that started the job names its conversation. */
const agentSessionNames = ['CLAUDE_CODE_SESSION_ID', 'CODEX_THREAD_ID'];
export const agentSessionHeader = 'errand-agent-session';

export const agentSessionOf = (env: Record<string, string> = {}): string | undefined =>
  agentSessionNames.map((name) => ownValue(env, name)).find((id) => id !== undefined && id !== '');

const notifyAction = 'notify';
const runPrefix = 'run:';

export const isAction = (url: string): boolean => url === notifyAction || url.startsWith(runPrefix);

/** A notification that was not shown is not repeated hours later. */
export const isTriedOnce = (url: string): boolean => url === notifyAction;

/** Rejects what could never be delivered. */
export function checkReceiver(url: string, commands: EndCommands | undefined): void {
  if (commands && url === notifyAction) return;
  if (commands && url.startsWith(runPrefix)) return void commandOf(url, commands);
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return;
  throw new AppError('invalidInput', `${url.slice(0, 200)} is not an http(s) URL.`, {
    hint: 'Use a complete URL such as https://example.com/hook.',
  });
}

function commandOf(url: string, commands: EndCommands): EndCommand {
  const name = url.slice(runPrefix.length);
  const found = ownValue(commands, name);
  if (found) return found;
  const known = Object.keys(commands);
  throw new AppError('invalidInput', `The operator has not approved a command \`${name}\`.`, {
    hint:
      known.length > 0
        ? `Approved commands: ${known.join(', ')}. onEnd.commands in config.json defines them.`
        : 'Define it in config.json: {"onEnd": {"commands": {"NAME": {"argv": ["program"]}}}}, and restart the server.',
  });
}

/** Performs actions; other addresses go to `send`. */
export function withEndActions(send: WebhookSender, deps: EndActionDeps): WebhookSender {
  return async (request) => {
    if (!isAction(request.url)) return send(request);
    const ended = endedJob(request.body);
    if (request.url === notifyAction) {
      await deps.notify(noticeOf(ended));
      return 'shown';
    }
    const { argv, cwd, timeoutMs, secrets } = commandOf(request.url, deps.commands);
    const folder = cwd ?? ended.cwd;
    const { id } = await deps.call(runCommand, {
      argv,
      env: variablesOf(ended, request.headers[agentSessionHeader]),
      secrets,
      ...(folder === undefined ? {} : { cwd: folder }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      name: `on end: ${request.url.slice(runPrefix.length)}`,
      // A repeated delivery starts no second job.
      idempotencyKey: request.headers['webhook-id']!,
      waitMs: 0,
    });
    return `started ${id}`;
  };
}

interface EndedJob {
  id: string;
  event: string;
  name?: string;
  summary?: string;
  cwd?: string;
  exitCode?: number;
  error?: string;
}

/** The body of a delivery in our own format. */
function endedJob(body: string): EndedJob {
  const message = parseJson(body);
  const data = isRecord(message) && isRecord(message.data) ? message.data : {};
  const job = isRecord(data.job) ? data.job : {};
  const event = isRecord(data.event) ? data.event : {};
  const text = (name: string): Record<string, string> =>
    typeof job[name] === 'string' ? { [name]: job[name] } : {};
  return {
    id: String(job.id),
    event: String(event.type),
    ...text('name'),
    ...text('summary'),
    ...text('cwd'),
    ...(typeof job.exitCode === 'number' ? { exitCode: job.exitCode } : {}),
    ...(isRecord(job.error) ? { error: String(job.error.message) } : {}),
  };
}

function variablesOf(job: EndedJob, session: string | undefined): Record<string, string> {
  const { id, event, name, summary, exitCode, error } = job;
  const values = {
    ERRAND_ENDED_JOB: id,
    ERRAND_ENDED_EVENT: event,
    ERRAND_ENDED_NAME: name ?? summary,
    ERRAND_ENDED_EXIT_CODE: exitCode === undefined ? undefined : String(exitCode),
    ERRAND_ENDED_ERROR: error,
    ERRAND_AGENT_SESSION: session,
  };
  return Object.fromEntries(
    Object.entries(values).flatMap(([variable, value]) =>
      value === undefined ? [] : [[variable, value.replaceAll('\0', ' ')]],
    ),
  );
}

function noticeOf({ id, event, name, summary, exitCode, error }: EndedJob): Notice {
  const code = exitCode === undefined || exitCode === 0 ? '' : ` with exit code ${exitCode}`;
  return {
    title: `${name ?? summary ?? id}: ${event.replaceAll('_', ' ')}${code}`,
    text: error ?? id,
  };
}
