// Conditions to wait for while a command runs: text, port, HTTP response, silence, input needed, new output. Used by
// wait_for_jobs and ready checks. Every check looks at files and processes; no state is stored.
import { statSync } from 'node:fs';
import type { Job } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { JobFiles } from './files.ts';
import type { CommandInput } from './input.ts';
import { localPort, type HttpProbe } from './probe.ts';
import { cleanText, shorten } from './output/text.ts';
import { Log } from './output/log.ts';
import type { LaunchFolder } from './process/folder.ts';
import { outputBytes } from './process/limits.ts';
import { portsOf, waitingForInput } from './process/observe.ts';
import { treeMembers, type ProcessRow } from './process/tree.ts';
import { newlyOpenedPorts } from './ready-ports.ts';

interface Condition {
  text?: string;
  port?: number;
  http?: string;
  silenceMs?: number;
  /** The command has printed something, and nothing more for this long. */
  quietMs?: number;
  inputNeeded?: boolean;
  newBytes?: number;
  /** Cursor: output before it counts neither for `text` nor for `newBytes`. */
  from?: number;
  /** The job's own ready check is met. */
  ready?: boolean;
}

export interface Met {
  reason: string;
  detail?: unknown;
}

export interface ConditionDeps {
  files: JobFiles;
  clock: Clock;
  probe: HttpProbe;
  isReady(attemptId: string): boolean;
  /** Masks secrets, because a model reads the matched lines. */
  mask(jobId: string, text: string): string;
}

const pollMs = 100;
/** Inspecting processes costs more than checking a file. */
const processPollMs = 500;
const textWindowBytes = 2 ** 20;
/** Maximum size of a reported matching line. */
const maxLineBytes = 500;

/** Resolves with the first condition that is met, or undefined if the signal aborts first. */
export async function whenAny(
  job: Job,
  condition: Condition,
  deps: ConditionDeps,
  signal: AbortSignal,
): Promise<Met | undefined> {
  const check = new Check(job, condition, deps);
  for (;;) {
    const met = await check.any();
    if (met || signal.aborted) return signal.aborted ? undefined : met;
    await deps.clock.sleep(pollMs, signal);
    if (signal.aborted) return undefined;
  }
}

/** A screen that does not change for this long is complete. */
const screenQuietMs = 700;

/** Conditions that end the wait of a call that started the job: it is ready, or it needs input from a caller who can type. */
export function returnConditions({ ready, stdin, tty }: CommandInput): Record<string, unknown> {
  if (ready) return { ready: true };
  if (tty) return { inputNeeded: true, quietMs: screenQuietMs };
  return stdin === 'open' ? { inputNeeded: true } : {};
}

/** Resolves when every part of a ready check was met, not necessarily at the same time. Undefined if the signal aborts first. */
export async function whenAll(
  job: Job,
  condition: Condition,
  deps: ConditionDeps,
  signal: AbortSignal,
): Promise<Met[] | undefined> {
  const parts: Condition[] = Object.entries(condition).map(([name, value]) => ({ [name]: value }));
  const met = await Promise.all(parts.map((part) => whenAny(job, part, deps, signal)));
  return met.every((one) => one !== undefined) ? met : undefined;
}

class Check {
  private readonly job: Job;
  private readonly condition: Condition;
  private readonly deps: ConditionDeps;
  private readonly texts = new Map<string, number>();
  private bytesAtStart: number | undefined;
  private processesAt = 0;

  constructor(job: Job, condition: Condition, deps: ConditionDeps) {
    this.job = job;
    this.condition = condition;
    this.deps = deps;
  }

  async any(): Promise<Met | undefined> {
    const { condition, deps, job } = this;
    if (condition.ready && deps.isReady(job.attemptId)) return { reason: 'ready' };
    const folder = deps.files.launch(job);
    if (!folder) return undefined;
    const bytes = outputBytes(folder);
    this.bytesAtStart ??= condition.from ?? bytes;
    const { newBytes, silenceMs, quietMs, text } = condition;
    if (quietMs !== undefined && bytes > 0 && (lastOutputAgeMs(folder, deps.clock) ?? 0) >= quietMs)
      return { reason: 'quiet' };
    if (newBytes !== undefined && bytes - this.bytesAtStart >= newBytes)
      return { reason: 'newBytes', detail: { bytes: bytes - this.bytesAtStart } };
    const silentMs = silenceMs === undefined ? undefined : lastOutputAgeMs(folder, deps.clock);
    if (silentMs !== undefined && silentMs >= silenceMs!)
      return { reason: 'silence', detail: { silentMs } };
    if (text !== undefined) {
      const detail = await this.find(text);
      if (detail)
        return { reason: 'text', detail: { ...detail, text: deps.mask(job.id, detail.text) } };
    }
    return this.byProcesses(folder);
  }

  private async byProcesses(folder: LaunchFolder): Promise<Met | undefined> {
    const { port, http, inputNeeded } = this.condition;
    if (port === undefined && http === undefined && !inputNeeded) return undefined;
    const now = this.deps.clock.now();
    if (now < this.processesAt) return undefined;
    this.processesAt = now + processPollMs;
    const rows = await membersOf(folder, this.job.attemptId);
    const ports = portsOf(rows);
    if (port !== undefined && ports.includes(port)) return { reason: 'port', detail: { port } };
    if (inputNeeded && waitsForInput(this.job, folder, rows)) return { reason: 'inputNeeded' };
    const { ready } = this.job.input as CommandInput;
    // Only ports of the job's own ready check count: waiting must not reveal other ports of this machine.
    const others = rows.length > 0 ? newlyOpenedPorts(folder, ready) : [];
    if (port !== undefined && others.includes(port))
      return { reason: 'port', detail: { port, own: false } };
    if (http === undefined) return undefined;
    const status = await this.deps.probe(http, [...ports, ...others]);
    if (status === undefined || status < 200 || status >= 300) return undefined;
    const at = localPort(http);
    const own = at === undefined || ports.includes(at);
    return { reason: 'http', detail: { status, ...(own ? {} : { port: at, own }) } };
  }

  /** Continues where the previous search stopped. Windows overlap, because the text may span two of them. */
  private async find(text: string): Promise<{ cursor: number; text: string } | undefined> {
    const wanted = Buffer.from(text);
    for (const { stream, view } of this.deps.files.logs(this.job)) {
      await using log = await Log.open(view);
      let at = Math.max(this.texts.get(stream) ?? this.condition.from ?? 0, log.start);
      while (at < log.size) {
        const bytes = await log.bytes(at, at + textWindowBytes);
        const found = bytes.indexOf(wanted);
        if (found >= 0) return { cursor: at + found, text: lineAround(bytes, found) };
        // Escape codes may split the text, so the cleaned lines are searched as well.
        const lines = bytes.includes(0x1b) ? cleanLines(bytes) : '';
        const line = lines.includes(text)
          ? lines.split('\n').find((one) => one.includes(text))
          : undefined;
        if (lines.includes(text)) return { cursor: at, text: shorten(line ?? text, maxLineBytes) };
        if (at + bytes.length >= log.size) break;
        at += Math.max(bytes.length - wanted.length * 8, 1);
      }
      this.texts.set(stream, Math.max(at, log.size - wanted.length * 8 - 256));
    }
    return undefined;
  }
}

export async function membersOf(folder: LaunchFolder, attemptId: string): Promise<ProcessRow[]> {
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return [];
  return treeMembers({ wrapper: claim.identity, mark: attemptId });
}

export function waitsForInput(
  job: Job,
  folder: LaunchFolder,
  rows: readonly ProcessRow[],
): boolean | null {
  const input = job.input as CommandInput;
  const open = input.stdin === 'open' || input.tty !== undefined;
  return waitingForInput(rows, open ? folder.stdin : undefined);
}

/** Uses file times. A job without output is silent since its start; a job that has not started is not silent. */
export function lastOutputAgeMs(folder: LaunchFolder, clock: Clock): number | undefined {
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return undefined;
  const time = (path: string) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat && stat.size > 0 ? stat.mtimeMs : 0;
  };
  const last = Math.max(time(folder.out), time(folder.err), claim.at);
  return Math.max(Math.round(clock.now() - last), 0);
}

/** The line that contains this byte, as far as the window includes it. */
function lineAround(bytes: Buffer, at: number): string {
  const from = bytes.lastIndexOf(10, at) + 1;
  const end = bytes.indexOf(10, at);
  const line = bytes.subarray(Math.max(from, at - maxLineBytes), end < 0 ? bytes.length : end);
  return shorten(cleanText(line.toString()), maxLineBytes);
}

function cleanLines(bytes: Buffer): string {
  return bytes
    .toString()
    .split('\n')
    .map((line) => cleanText(line))
    .join('\n');
}
