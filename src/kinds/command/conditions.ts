// What one can wait for in a running command besides its end: a text, a port, an HTTP answer, silence, a need for
// input, new output. Used by wait_for_jobs and by ready checks. Everything is looked up, nothing is remembered.
import { statSync } from 'node:fs';
import type { Job } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { JobFiles } from './files.ts';
import type { CommandInput } from './input.ts';
import { localPort, type HttpProbe } from './probe.ts';
import { cleanText } from './output/clean.ts';
import { Log } from './output/log.ts';
import type { LaunchFolder } from './process/folder.ts';
import { outputBytes } from './process/limits.ts';
import { listeningPorts, waitingForInput } from './process/observe.ts';
import { treeMembers, type ProcessRow } from './process/tree.ts';
import { openedSince } from './ready-ports.ts';

export interface Condition {
  text?: string;
  port?: number;
  http?: string;
  silenceMs?: number;
  inputNeeded?: boolean;
  newBytes?: number;
  /** Cursor: what was printed before it counts neither as text nor as new. */
  from?: number;
  /** The job's own ready check was met. */
  ready?: boolean;
}

export interface Met {
  reason: string;
  detail?: unknown;
}

export interface ConditionNeeds {
  files: JobFiles;
  clock: Clock;
  probe: HttpProbe;
  isReady(attemptId: string): boolean;
}

const pollMs = 100;
/** Looking through processes costs more than looking at a file. */
const processPollMs = 500;
const textWindowBytes = 2 ** 20;

/** The first condition that is met; undefined when the signal aborts first. */
export async function whenAny(
  job: Job,
  condition: Condition,
  needs: ConditionNeeds,
  signal: AbortSignal,
): Promise<Met | undefined> {
  const check = new Check(job, condition, needs);
  for (;;) {
    const met = await check.any();
    if (met || signal.aborted) return signal.aborted ? undefined : met;
    await needs.clock.sleep(pollMs, signal);
    if (signal.aborted) return undefined;
  }
}

/** Every part of a ready check, each at its own time. Undefined when the signal aborts first. */
export async function whenAll(
  job: Job,
  condition: Condition,
  needs: ConditionNeeds,
  signal: AbortSignal,
): Promise<Met[] | undefined> {
  const parts: Condition[] = Object.entries(condition).map(([name, value]) => ({ [name]: value }));
  const met = await Promise.all(parts.map((part) => whenAny(job, part, needs, signal)));
  return met.every((one) => one !== undefined) ? met : undefined;
}

class Check {
  private readonly job: Job;
  private readonly condition: Condition;
  private readonly needs: ConditionNeeds;
  private readonly texts = new Map<string, number>();
  private bytesAtStart: number | undefined;
  private processesAt = 0;

  constructor(job: Job, condition: Condition, needs: ConditionNeeds) {
    this.job = job;
    this.condition = condition;
    this.needs = needs;
  }

  async any(): Promise<Met | undefined> {
    const { condition, needs, job } = this;
    if (condition.ready && needs.isReady(job.attemptId)) return { reason: 'ready' };
    const folder = needs.files.launch(job);
    if (!folder) return undefined;
    const bytes = outputBytes(folder);
    this.bytesAtStart ??= condition.from ?? bytes;
    const { newBytes, silenceMs, text } = condition;
    if (newBytes !== undefined && bytes - this.bytesAtStart >= newBytes)
      return { reason: 'newBytes', detail: { bytes: bytes - this.bytesAtStart } };
    const silentMs = silenceMs === undefined ? undefined : lastOutputAgeMs(folder, needs.clock);
    if (silentMs !== undefined && silentMs >= silenceMs!)
      return { reason: 'silence', detail: { silentMs } };
    if (text !== undefined) {
      const at = await this.find(text);
      if (at !== undefined) return { reason: 'text', detail: { cursor: at } };
    }
    return this.byProcesses(folder);
  }

  private async byProcesses(folder: LaunchFolder): Promise<Met | undefined> {
    const { port, http, inputNeeded } = this.condition;
    if (port === undefined && http === undefined && !inputNeeded) return undefined;
    const now = this.needs.clock.now();
    if (now < this.processesAt) return undefined;
    this.processesAt = now + processPollMs;
    const rows = await membersOf(folder, this.job.attemptId);
    const ports = listeningPorts(rows);
    if (port !== undefined && ports.includes(port)) return { reason: 'port', detail: { port } };
    if (inputNeeded && waitsForInput(this.job, folder, rows)) return { reason: 'inputNeeded' };
    const { ready } = this.job.input as CommandInput;
    // Only ports of the job's own check: nobody looks at others of this machine by waiting for a job.
    const others = rows.length > 0 ? openedSince(folder, ready) : [];
    if (port !== undefined && others.includes(port))
      return { reason: 'port', detail: { port, own: false } };
    if (http === undefined) return undefined;
    const status = await this.needs.probe(http, [...ports, ...others]);
    if (status === undefined || status < 200 || status >= 300) return undefined;
    const at = localPort(http);
    const own = at === undefined || ports.includes(at);
    return { reason: 'http', detail: { status, ...(own ? {} : { port: at, own }) } };
  }

  /** Goes on where it stopped; the text may lie across two windows. */
  private async find(text: string): Promise<number | undefined> {
    const wanted = Buffer.from(text);
    for (const { stream, view } of this.needs.files.logs(this.job)) {
      await using log = await Log.open(view);
      let at = Math.max(this.texts.get(stream) ?? this.condition.from ?? 0, log.start);
      while (at < log.size) {
        const bytes = await log.bytes(at, at + textWindowBytes);
        const found = bytes.indexOf(wanted);
        if (found >= 0) return at + found;
        // Colours may stand within the text: then its line is its place.
        if (bytes.includes(0x1b) && cleanLines(bytes).includes(text)) return at;
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

/** By the file's own time; a job that printed nothing is silent since it began, and one that has not begun is not silent. */
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

function cleanLines(bytes: Buffer): string {
  return bytes
    .toString()
    .split('\n')
    .map((line) => cleanText(line))
    .join('\n');
}
