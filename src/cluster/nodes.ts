// The servers that share a store: who is there, what each can take, and whether it takes anything now.
// Every node writes its own row; cordon and drain are written by anybody and read back with the next beat.
import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { AppError } from '../errors.ts';
import type { Job } from '../jobs/job.ts';
import { hasLabels } from '../jobs/labels.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { NodeRow, NodeRows, NodeState } from './store.ts';

export interface NodesOptions {
  rows: NodeRows;
  clock: Clock;
  log: Log;
  /** This server's id, the same after every restart. */
  id: string;
  version: string;
  /** Path of the home, which no other server of this machine can have. */
  home: string;
  /** What jobs may ask for: `gpu`, `zone=eu`. */
  labels: readonly string[];
  leaseMs: number;
  url(): string | undefined;
  capacity(): Record<string, number>;
  running(): Record<string, number>;
  /** It takes work again: look for some. */
  resumed(): void;
}

const beatMsMax = 5000;

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
    this.instance = `${placeOf(options.home)}-${randomBytes(6).toString('hex')}`;
    const { clock, log, leaseMs } = options;
    this.labels = new Set([...options.labels, `node=${options.id}`, `host=${hostname()}`]);
    const everyMs = Math.min(beatMsMax, leaseMs / 6);
    this.loop = new Loop({ name: 'node', everyMs, clock, log, run: () => this.beat() });
  }

  async start(): Promise<void> {
    const { rows, clock, version } = this.options;
    const now = clock.now();
    const before = await rows.find(this.id);
    // The home's lock keeps a second server off this home: an earlier life of ours cannot be a twin.
    const earlier = before?.instance.startsWith(`${placeOf(this.options.home)}-`);
    if (before && !earlier && this.isAlive(before)) await this.refuseTwin(before);
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
      .stopped(this.id, this.instance, this.options.clock.now())
      .catch((error: unknown) => this.options.log.warn('the store is away at the end', { error }));
  }

  /** False while somebody holds it back: cordoned or draining. */
  get takesWork(): boolean {
    return this.state === 'active';
  }

  /** Whether this node takes the job now: it has every label the job asks for, and nobody holds it back. */
  accepts(job: Pick<Job, 'labels'>): boolean {
    return this.takesWork && hasLabels(this.labels, job.labels);
  }

  /** Why nobody takes this waiting job now; undefined when a node may. */
  async whyWaits({ labels }: Pick<Job, 'labels'>): Promise<string | undefined> {
    const wanted =
      labels.length === 1 ? `the label ${labels[0]}` : `the labels ${labels.join(', ')}`;
    const fit = (await this.rows.list()).filter((row) => hasLabels(new Set(row.labels), labels));
    if (fit.length === 0) return `It waits for a node with ${wanted}; there is none.`;
    const alive = fit.filter((row) => this.isAlive(row));
    const named = (rows: NodeRow[]) => rows.map(({ name, id }) => `${name} (${id})`).join(', ');
    if (alive.length === 0) return `It waits for ${wanted}; away: ${named(fit)}.`;
    if (alive.some(({ state }) => state === 'active')) return undefined;
    return `It waits for ${wanted}; held back: ${named(alive)}.`;
  }

  isAlive({ seenAt, stoppedAt }: NodeRow): boolean {
    return stoppedAt === null && this.options.clock.now() - seenAt < this.options.leaseMs;
  }

  /** Here at once; another node hears of it with its next beat. */
  async setState(id: string, state: NodeState): Promise<NodeRow> {
    if (!(await this.rows.setState(id, state))) {
      throw new AppError('notFound', `There is no node ${id}.`, {
        hint: '`errand node list` shows them.',
      });
    }
    if (id === this.id) this.take(state);
    return (await this.rows.find(id))!;
  }

  /** A row stays when its server was killed: only a second beat shows that somebody lives there. */
  private async refuseTwin(before: NodeRow): Promise<void> {
    const { clock, rows } = this.options;
    const waitMs = Math.min(beatMsMax, this.options.leaseMs / 6) * 1.5;
    await clock.sleep(waitMs);
    const after = await rows.find(this.id);
    if (!after || after.seenAt === before.seenAt) return;
    throw new AppError(
      'conflict',
      `A server with the node id ${this.id} runs already (${after.name}).`,
      {
        hint: 'Two nodes need two homes: a copied home must lose its file node.id before it starts.',
      },
    );
  }

  private async beat(): Promise<void> {
    const { rows, clock } = this.options;
    const state = await rows.beat({
      id: this.id,
      instance: this.instance,
      url: this.options.url() ?? null,
      running: this.options.running(),
      at: clock.now(),
    });
    if (state) this.take(state);
  }

  private take(state: NodeState): void {
    const resumed = this.state !== 'active' && state === 'active';
    this.state = state;
    if (resumed) this.options.resumed();
  }
}

const placeOf = (home: string): string =>
  createHash('sha256').update(`${hostname()}\n${home}`).digest('hex').slice(0, 12);
