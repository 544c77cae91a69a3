// The endpoints of this server: looked up on every call, so kept in memory and read again when they may have changed.
// A change of what a worker is made of is a new version with a release.
import { AppError } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import {
  checkEndpoint,
  endpointSpec,
  releaseDiff,
  type EndpointSpec,
  type EndpointsSection,
} from './spec.ts';
import type { EndpointRow, EndpointStore } from './store.ts';

/** Another node may have saved one: how old a copy may be. */
const cacheMs = 2000;
const conflictsMax = 10;

export class Endpoints {
  private readonly store: EndpointStore;
  private readonly clock: Clock;
  private byId = new Map<string, EndpointRow>();
  private readAt = -Infinity;
  private readonly listeners = new Set<(id: string) => void>();

  constructor(store: EndpointStore, clock: Clock) {
    this.store = store;
    this.clock = clock;
  }

  async list(): Promise<EndpointRow[]> {
    await this.refresh();
    return [...this.byId.values()];
  }

  /** Undefined when there is none; a known one costs no read. */
  async find(id: string): Promise<EndpointRow | undefined> {
    const old = this.clock.now() - this.readAt >= cacheMs;
    // One that is not known may have been saved through another node a moment ago.
    if (old || !this.byId.has(id)) await this.refresh(true);
    return this.byId.get(id);
  }

  /** The endpoint if the caller may use it; else it looks unknown. */
  async get(id: string, caller: Caller | undefined): Promise<EndpointRow> {
    const row = await this.find(id);
    if (!row || !mayUse(row, caller)) throw unknownEndpoint(id);
    return row;
  }

  onChange(listener: (id: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Creates, or changes the given fields of one that is there. */
  async save(wish: {
    id: string;
    fields: Record<string, unknown>;
    owner: string;
    source: EndpointRow['source'];
    /** False: the fields are all there is (config.json). */
    merge: boolean;
    /** Refuse when it exists already. */
    create?: boolean;
  }): Promise<EndpointRow> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      await this.refresh(true);
      const before = this.byId.get(wish.id);
      if (before && wish.create) throw existsAlready(wish.id);
      const spec = parseSpec(
        before && wish.merge ? { ...before.spec, ...wish.fields } : wish.fields,
      );
      checkEndpoint(wish.id, spec);
      const { row, steps } = this.planSave(wish, before, spec);
      if (steps.length === 0) return row;
      if ((await this.store.store.commit(steps)).applied) {
        await this.refresh(true);
        this.changed(wish.id);
        return row;
      }
    }
    throw new AppError('unavailable', 'The endpoint changed too often at once.', {
      hint: 'Try again.',
    });
  }

  async delete(id: string): Promise<void> {
    await this.store.store.commit(this.store.deleteEndpoint(id));
    await this.refresh(true);
    this.changed(id);
  }

  /**
   * Makes the table what config.json says; endpoints saved by operation are left alone. `prune`: what an earlier
   * config.json had goes; not where several nodes each have a config.json of their own.
   */
  async applyConfig(section: EndpointsSection, owner: string, prune: boolean): Promise<void> {
    for (const [id, fields] of Object.entries(section))
      await this.save({ id, fields, owner, source: 'config', merge: false });
    if (!prune) return;
    for (const row of await this.list())
      if (row.source === 'config' && !Object.hasOwn(section, row.id)) await this.delete(row.id);
  }

  private planSave(
    wish: { id: string; owner: string; source: EndpointRow['source'] },
    before: EndpointRow | undefined,
    spec: EndpointSpec,
  ): { row: EndpointRow; steps: Step[] } {
    const now = this.clock.now();
    const { id, owner, source } = wish;
    if (!before) {
      const row = { id, owner, spec, version: 1, source, createdAt: now, updatedAt: now };
      const release = { version: 1, diff: [], by: owner, createdAt: now };
      return {
        row,
        steps: [...this.store.insertEndpoint(row), ...this.store.insertRelease(id, release)],
      };
    }
    if (JSON.stringify(before.spec) === JSON.stringify(spec) && before.source === source)
      return { row: before, steps: [] };
    const diff = releaseDiff(before.spec, spec);
    const version = before.version + (diff.length > 0 ? 1 : 0);
    const row = {
      ...before,
      spec,
      source,
      version,
      updatedAt: Math.max(now, before.updatedAt + 1),
    };
    const steps = this.store.updateEndpoint(before, row);
    if (diff.length > 0)
      steps.push(...this.store.insertRelease(id, { version, diff, by: owner, createdAt: now }));
    return { row, steps };
  }

  private changed(id: string): void {
    for (const listener of this.listeners) listener(id);
  }

  private async refresh(force = false): Promise<void> {
    const now = this.clock.now();
    if (!force && now - this.readAt < cacheMs) return;
    this.byId = new Map((await this.store.endpoints()).map((row) => [row.id, row]));
    this.readAt = now;
  }
}

export function mayUse(row: EndpointRow, caller: Caller | undefined): boolean {
  if (!caller || !isWithin(row, caller)) return false;
  if (caller.admin) return true;
  // An endpoint of config.json belongs to the operator, who lets every key use it.
  return row.source === 'config' || row.owner === caller.owner;
}

/** Whether the limits of the key include this endpoint. */
function isWithin({ id }: Pick<EndpointRow, 'id'>, caller: Caller): boolean {
  const { kinds, queues, subject } = caller;
  if (kinds && !kinds.includes('endpoint')) return false;
  if (queues && !queues.includes(id)) return false;
  return subject === undefined || subject === `endpoint:${id}`;
}

/** Its owner and admins, with a key that is not limited to some queues or to one endpoint: those only use it. */
export function mayChange(row: EndpointRow, caller: Caller | undefined): boolean {
  if (!caller || !isWithin(row, caller)) return false;
  if (caller.queues !== undefined || caller.subject !== undefined) return false;
  return manages(row, caller);
}

/** Whether the caller decides about the jobs of all its users: its owner and admins. */
export const manages = (row: EndpointRow, caller: Caller): boolean =>
  caller.admin || (row.source === 'api' && row.owner === caller.owner);

export function unknownEndpoint(id: string): AppError {
  return new AppError('notFound', `There is no endpoint ${id.slice(0, 80)}.`, {
    hint: 'list_endpoints shows those you can use; save_endpoint makes one.',
  });
}

function existsAlready(id: string): AppError {
  return new AppError('conflict', `There is an endpoint ${id} already.`, {
    hint: 'Choose another id, or change that one.',
  });
}

function parseSpec(fields: Record<string, unknown>): EndpointSpec {
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  const parsed = endpointSpec.safeParse(present);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues
    .slice(0, 5)
    .map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new AppError('invalidInput', `That is no endpoint: ${issues.join('; ')}`, {
    hint: 'docs/endpoint.md and the JSON Schema of config.json name every field and its limits.',
  });
}
