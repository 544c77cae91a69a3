// Finds the route for a path. Fixed paths need one map lookup. Paths with fields walk a tree of segments, where a fixed
// segment wins over a field and a field wins over `{rest*}`.

export interface RouteMatch<R> {
  /** Routes by method. If the requested method is missing, the response is 405 with these methods. */
  methods: ReadonlyMap<string, R>;
  params(method: string): Record<string, string>;
}

interface Leaf<R> {
  methods: Map<string, R>;
  names: Map<string, string[]>;
}

interface Branch<R> {
  fixed: Map<string, Branch<R>>;
  field?: Branch<R>;
  rest?: Leaf<R>;
  leaf?: Leaf<R>;
}

const noParams = (): Record<string, string> => ({});

export class Router<R> {
  private readonly plain = new Map<string, Leaf<R>>();
  private readonly root: Branch<R> = { fixed: new Map() };

  add(method: string, path: string, route: R): void {
    const segments = split(path);
    const names = segments.filter((part) => part.startsWith('{')).map(fieldName);
    const leaf = names.length === 0 ? this.plainLeaf(path) : this.treeLeaf(segments);
    if (leaf.methods.has(method)) throw new Error(`route ${method} ${path} is defined twice`);
    leaf.methods.set(method, route);
    leaf.names.set(method, names);
  }

  find(path: string): RouteMatch<R> | undefined {
    const normalized = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    const plain = this.plain.get(normalized);
    if (plain) return { methods: plain.methods, params: noParams };
    const values: string[] = [];
    const leaf = walk(this.root, split(normalized), 0, values);
    if (!leaf) return undefined;
    return {
      methods: leaf.methods,
      params: (method) => named(leaf.names.get(method) ?? [], values),
    };
  }

  private plainLeaf(path: string): Leaf<R> {
    let leaf = this.plain.get(path);
    if (!leaf) this.plain.set(path, (leaf = newLeaf<R>()));
    return leaf;
  }

  private treeLeaf(segments: string[]): Leaf<R> {
    let at = this.root;
    for (const [i, segment] of segments.entries()) {
      if (segment.endsWith('*}')) {
        if (i !== segments.length - 1) throw new Error(`${segment} must be the last segment`);
        return (at.rest ??= newLeaf<R>());
      }
      if (segment.startsWith('{')) {
        at = at.field ??= { fixed: new Map() };
        continue;
      }
      let next = at.fixed.get(segment);
      if (!next) at.fixed.set(segment, (next = { fixed: new Map() }));
      at = next;
    }
    return (at.leaf ??= newLeaf<R>());
  }
}

function walk<R>(
  at: Branch<R>,
  segments: string[],
  i: number,
  values: string[],
): Leaf<R> | undefined {
  if (i === segments.length) return at.leaf;
  const segment = segments[i]!;
  const fixed = at.fixed.get(segment);
  const mark = values.length;
  if (fixed) {
    const leaf = walk(fixed, segments, i + 1, values);
    if (leaf) return leaf;
    values.length = mark;
  }
  if (at.field && segment !== '') {
    values.push(decoded(segment));
    const leaf = walk(at.field, segments, i + 1, values);
    if (leaf) return leaf;
    values.length = mark;
  }
  if (at.rest) values.push(segments.slice(i).map(decoded).join('/'));
  return at.rest;
}

/** The names come from our own routes. */
function named(names: readonly string[], values: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  for (let i = 0; i < names.length; i++) params[names[i]!] = values[i]!;
  return params;
}

const decoded = (segment: string): string =>
  segment.includes('%') ? decodeURIComponent(segment) : segment;

function newLeaf<R>(): Leaf<R> {
  return { methods: new Map(), names: new Map() };
}

function split(path: string): string[] {
  return path.slice(1).split('/');
}

function fieldName(segment: string): string {
  const name = /^\{(\w+)\*?\}$/.exec(segment)?.[1];
  if (!name) throw new Error(`the path segment ${segment} must be a single {name}`);
  return name;
}
