// The servers that share a store: which are alive, what each can run, and whether it accepts work. Every node writes its
// own row. Anybody may cordon or drain a node; it reads its state back with the next heartbeat.
import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { AppError } from '../errors.ts';
import type { Job } from '../jobs/job.ts';
import { hasLabels } from '../jobs/labels.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { NodeRow, NodeRows, NodeState } from './store.ts';

interface NodesOptions {
  rows: NodeRows;
  clock: Clock;
  log: Log;
  /** This server's id, stable across restarts. */
  id: string;
  version: string;
  /** Path of the home, which is unique on this machine. */
  home: string;
  /** Labels that jobs may require: `gpu`, `zone=eu`. */
  labels: readonly string[];
  leaseMs: number;
  url(): string | undefined;
  capacity(): Record<string, number>;
  running(): Record<string, number>;
  /** Called when the node accepts work again. */
  onResume(): void;
}

const maxHeartbeatMs = 5000;

export class Nodes implements Service {
  readonly name = 'nodes';
  readonly id: string;
  readonly rows: NodeRows;
  private readonly options: NodesOptions;
  private readonly instance: string;
  private readonly labels: ReadonlySet<string>;
  private readonly loop: Loop;
  private state: NodeState = 'active';

  constructor(options: NodesOptions) {
    this.options = options;
    this.id = options.id;
    this.rows = options.rows;
    this.instance = `${homeFingerprint(options.home)}-${randomBytes(6).toString('hex')}`;
    const { clock, log, leaseMs } = options;
    this.labels = new Set([...options.labels, `node=${options.id}`, `host=${hostname()}`]);
    const everyMs = Math.min(maxHeartbeatMs, leaseMs / 6);
    this.loop = new Loop({ name: 'node', everyMs, clock, log, run: () => this.heartbeat() });
  }

  async start(): Promise<void> {
    const { rows, clock, version } = this.options;
    const now = clock.now();
    const before = await rows.find(this.id);
    // The home lock excludes a second server on this home, so a row from this home cannot belong to a duplicate.
    const isOwnRow = before?.instance.startsWith(`${homeFingerprint(this.options.home)}-`);
    if (before && !isOwnRow && this.isAlive(before)) await this.rejectDuplicate(before);
    this.state = before?.state ?? 'active';
    await rows.register({
      id: this.id,
      name: hostname(),
      url: this.options.url() ?? null,
      labels: [...this.labels],
      capacity: this.options.capacity(),
      running: {},
      instance: this.instance,
      version,
      startedAt: now,
      seenAt: now,
    });
    await this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
    await this.options.rows
      .markStopped(this.id, this.instance, this.options.clock.now())
      .catch((error: unknown) =>
        this.options.log.warn('cannot record the stop: the store is unreachable', { error }),
      );
  }

  /** False while the node is cordoned or draining. */
  get acceptsWork(): boolean {
    return this.state === 'active';
  }

  /** Whether this node can take the job now: it has every required label and accepts work. */
  accepts(job: Pick<Job, 'labels'>): boolean {
    return this.acceptsWork && hasLabels(this.labels, job.labels);
  }

  /** Why no node takes this waiting job now; undefined if a node can. */
  async explainWait({ labels }: Pick<Job, 'labels'>): Promise<string | undefined> {
    const required =
      labels.length === 1 ? `the label ${labels[0]}` : `the labels ${labels.join(', ')}`;
    const fit = (await this.rows.list()).filter((row) => hasLabels(new Set(row.labels), labels));
    if (fit.length === 0) return `It waits for a node with ${required}; no such node exists.`;
    const alive = fit.filter((row) => this.isAlive(row));
    const named = (rows: NodeRow[]) => rows.map(({ name, id }) => `${name} (${id})`).join(', ');
    if (alive.length === 0) return `It waits for ${required}; offline: ${named(fit)}.`;
    if (alive.some(({ state }) => state === 'active')) return undefined;
    return `It waits for ${required}; cordoned or draining: ${named(alive)}.`;
  }

  isAlive({ seenAt, stoppedAt }: NodeRow): boolean {
    return stoppedAt === null && this.options.clock.now() - seenAt < this.options.leaseMs;
  }

  /** Takes effect immediately on this node, and with the next heartbeat on another one. */
  async setState(id: string, state: NodeState): Promise<NodeRow> {
    if (!(await this.rows.setState(id, state))) {
      throw new AppError('notFound', `Node ${id} does not exist.`, {
        hint: '`errand node list` shows all nodes.',
      });
    }
    if (id === this.id) this.applyState(state);
    return (await this.rows.find(id))!;
  }

  /**
   * The row of a killed server stays alive until its lease ends. Only another heartbeat proves that a second server is
   * running, and on a busy machine it may be late.
   */
  private async rejectDuplicate(before: NodeRow): Promise<void> {
    const { clock, rows, leaseMs } = this.options;
    let row: NodeRow | undefined = before;
    while (row && this.isAlive(row)) {
      await clock.sleep(Math.min(maxHeartbeatMs, leaseMs / 6));
      row = await rows.find(this.id);
      if (!row || row.seenAt === before.seenAt) continue;
      throw new AppError(
        'conflict',
        `Another server with node id ${this.id} is running (${row.name}).`,
        {
          hint: 'Use a separate home for every node. If this home is a copy, delete its node.id file, then start again.',
        },
      );
    }
  }

  private async heartbeat(): Promise<void> {
    const { rows, clock } = this.options;
    const state = await rows.heartbeat({
      id: this.id,
      instance: this.instance,
      url: this.options.url() ?? null,
      running: this.options.running(),
      at: clock.now(),
    });
    if (state) this.applyState(state);
  }

  private applyState(state: NodeState): void {
    const resumed = this.state !== 'active' && state === 'active';
    this.state = state;
    if (resumed) this.options.onResume();
  }
}

const homeFingerprint = (home: string): string =>
  createHash('sha256').update(`${hostname()}\n${home}`).digest('hex').slice(0, 12);
