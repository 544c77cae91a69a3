// The endpoints of this server. Every call looks one up, so they are cached in memory and reread when they may have
// changed. A change to what workers run creates a new version with a release.
import { AppError } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import { checkEndpoint, endpointSpec, releaseDiff, type EndpointSpec } from './spec.ts';
import type { EndpointSettings } from './settings.ts';
import type { EndpointRow, EndpointStore } from './store/endpoints.ts';

/** Maximum age of the cache, because another node may have saved an endpoint. */
const cacheMs = 2000;
const maxConflicts = 10;

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

  /** Returns undefined if it does not exist. A known endpoint costs no read. */
  async find(id: string): Promise<EndpointRow | undefined> {
    const old = this.clock.now() - this.readAt >= cacheMs;
    // Another node may just have saved an endpoint that is not in the cache.
    if (old || !this.byId.has(id)) await this.refresh(true);
    return this.byId.get(id);
  }

  /** Returns the endpoint if the caller may use it. Otherwise it counts as unknown. */
  async get(id: string, caller: Caller | undefined): Promise<EndpointRow> {
    const row = await this.find(id);
    if (!row || !mayUse(row, caller)) throw unknownEndpoint(id);
    return row;
  }

  onChange(listener: (id: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Creates an endpoint, or changes the given fields of an existing one. */
  async save(request: {
    id: string;
    fields: Record<string, unknown>;
    owner: string;
    source: EndpointRow['source'];
    /** False: the fields replace all others (config.json). */
    merge: boolean;
    /** Reject the call if the endpoint exists. */
    create?: boolean;
  }): Promise<EndpointRow> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      await this.refresh(true);
      const before = this.byId.get(request.id);
      if (before && request.create) throw existsAlready(request.id);
      const spec = parseSpec(
        before && request.merge ? { ...before.spec, ...request.fields } : request.fields,
      );
      checkEndpoint(request.id, spec);
      const { row, steps } = this.planSave(request, before, spec);
      if (steps.length === 0) return row;
      if ((await this.store.store.commit(steps)).applied) {
        await this.refresh(true);
        this.changed(request.id);
        return row;
      }
    }
    throw new AppError('unavailable', 'The endpoint kept changing while this was being saved.', {
      hint: 'Try again.',
    });
  }

  async delete(id: string): Promise<void> {
    await this.store.store.commit(this.store.deleteEndpoint(id));
    await this.refresh(true);
    this.changed(id);
  }

  /**
   * Applies config.json to the table. Endpoints that were saved by an operation stay as they are. `prune` deletes
   * endpoints of an earlier config.json; it is off when several nodes have separate config.json files.
   */
  async applyConfig(section: EndpointSettings, owner: string, prune: boolean): Promise<void> {
    for (const [id, fields] of Object.entries(section))
      await this.save({ id, fields, owner, source: 'config', merge: false });
    if (!prune) return;
    for (const row of await this.list())
      if (row.source === 'config' && !Object.hasOwn(section, row.id)) await this.delete(row.id);
  }

  private planSave(
    request: { id: string; owner: string; source: EndpointRow['source'] },
    before: EndpointRow | undefined,
    spec: EndpointSpec,
  ): { row: EndpointRow; steps: Step[] } {
    const now = this.clock.now();
    const { id, owner, source } = request;
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
  // Endpoints of config.json belong to the operator, who lets every key use them.
  return row.source === 'config' || row.owner === caller.owner;
}

/** Returns whether the limits of the key include this endpoint. */
function isWithin({ id }: Pick<EndpointRow, 'id'>, caller: Caller): boolean {
  const { kinds, queues, subject } = caller;
  if (kinds && !kinds.includes('endpoint')) return false;
  if (queues && !queues.includes(id)) return false;
  return subject === undefined || subject === `endpoint:${id}`;
}

/** Its owner and admins may change it, unless their key is limited to some queues or to one endpoint. */
export function mayChange(row: EndpointRow, caller: Caller | undefined): boolean {
  if (!caller || !isWithin(row, caller)) return false;
  if (caller.queues !== undefined || caller.subject !== undefined) return false;
  return manages(row, caller);
}

/** Returns whether the caller may act on the jobs of all users of the endpoint: its owner and admins may. */
export const manages = (row: EndpointRow, caller: Caller): boolean =>
  caller.admin || (row.source === 'api' && row.owner === caller.owner);

export function unknownEndpoint(id: string): AppError {
  return new AppError('notFound', `Endpoint ${id.slice(0, 80)} does not exist.`, {
    hint: 'list_endpoints shows the endpoints you can use. save_endpoint creates one.',
  });
}

function existsAlready(id: string): AppError {
  return new AppError('conflict', `Endpoint ${id} already exists.`, {
    hint: 'Choose another id, or change the existing endpoint.',
  });
}

function parseSpec(fields: Record<string, unknown>): EndpointSpec {
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  const parsed = endpointSpec.safeParse(present);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues
    .slice(0, 5)
    .map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new AppError('invalidInput', `The endpoint settings are invalid: ${issues.join('; ')}`, {
    hint: 'docs/endpoint.md and the JSON Schema of config.json list every field and its limits.',
  });
}
