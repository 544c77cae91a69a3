// Checks how the modules of src/ depend on each other: imports that a ring does not allow, cycles (type imports included),
// folders with one file, files that are too long, and exports that nobody imports. Prints what it finds; `npm test` runs it.
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const root = join(import.meta.dirname, '..');
const maxFileLines = 400;
const largestShown = 5;

interface Module {
  /** Relative to the root of the repository. */
  path: string;
  lines: number;
  code: string;
  imports: Import[];
}

interface Import {
  from: string;
  /** The imported names. `*`: all of them. */
  names: string[];
}

/** What each part of src/ may import, apart from packages. Inner rings never import outer ones. Every file needs a rule. */
const rules: [part: RegExp, allowed: RegExp][] = [
  [/^runtime\//, /^(runtime\/|errors\.ts)/],
  [/^(contract|errors|version|command-shape|job-names|config-upgrade)\.ts$/, /^$/],
  [/^contracts\//, /^(contracts|runtime)\/|^(authorization|contract|job-names)\.ts$/],
  [/^issue-text\.ts$/, /^runtime\/by-name\.ts$/],
  [/^(authorization|stream-item)\.ts$/, /^errors\.ts$/],
  [/^call-context\.ts$/, /^authorization\.ts$/],
  [/^elsewhere\.ts$/, /^(call-context|errors|stream-item)\.ts$/],
  [/^input-error\.ts$/, /^(errors|issue-text)\.ts/],
  [
    /^operation\.ts$/,
    /^(authorization|call-context|command-shape|contract|elsewhere|errors|input-error|job-names|stream-item)\.ts|^runtime\//,
  ],
  [/^dialect\.ts$/, /^contracts\/|^(contract|operation|errors)\.ts/],
  [
    /^config(-place|-on-end)?\.ts$/,
    /^(errors|issue-text|config-place|config-on-end|config-upgrade)\.ts|^runtime\//,
  ],
  [/^store\//, /^(store\/|errors\.ts|runtime\/)/],
  // Ring 1
  [
    /^(jobs|webhooks)\//,
    /^(jobs|webhooks|access|contracts|runtime)\/|^(store\/store|operation|job-names|errors)\.ts/,
  ],
  [/^access\//, /^(access|contracts|runtime)\/|^(jobs\/job|store\/store|operation|errors)\.ts/],
  [/^cluster\//, /^(cluster|contracts|jobs|runtime)\/|^(plugin|store\/store|operation|errors)\.ts/],
  [/^plugin\.ts$/, /^(jobs|webhooks|access|runtime)\/|^(store\/store|operation|errors)\.ts$/],
  // Ring 2: a kind never imports another.
  [
    /^kinds\//,
    /^(kinds\/SELF|jobs|webhooks|access|contracts|runtime)\/|^(plugin|contract|store\/store|operation|errors)\.ts/,
  ],
  // Ring 3: interfaces and dialects know contracts, not what implements them. The dashboard's program for browsers knows only itself.
  [/^interfaces\/dashboard\/browser\//, /^interfaces\/dashboard\/browser\//],
  // Only the command line configures agent clients, whose module knows nothing of jobs.
  [/^agent-clients\//, /^(agent-clients|runtime)\/|^errors\.ts/],
  [
    /^interfaces\/cli\//,
    /^(interfaces\/cli|agent-clients|contracts|runtime)\/|^(contract|operation|dialect|errors)\.ts/,
  ],
  [
    /^interfaces\//,
    /^(interfaces\/SELF|contracts|runtime)\/|^(contract|operation|dialect|errors)\.ts/,
  ],
  [
    /^dialects\//,
    /^(dialects\/SELF|contracts|runtime)\/|^kinds\/\w+\/contracts(\.ts$|\/)|^(contract|operation|dialect|errors)\.ts/,
  ],
  // Only the composition root imports kinds and dialects, through their index. It does not know the interfaces.
  [
    /^app\.ts$/,
    /^(?!interfaces\/|(kinds|dialects)\/[^/]+\/(?!index\.ts)|server\.ts|main\.ts|start\.ts)/,
  ],
  // Programs that combine everything except individual kinds and dialects: the server, command-line tools, the doctor.
  [
    /^(doctor\/|(server|server-operations|main|home|home-ledger|metrics|output-copy|restore|settings-report|start|store-check|store-tools|tracing)\.ts$)/,
    /^(?!kinds\/|dialects\/)/,
  ],
];

const modules = new Map(
  globSync('{src,test,bench,scripts,examples}/**/*.{ts,tsx,mjs}', {
    cwd: root,
    exclude: (path) => path.includes('node_modules'),
  }).map((path) => [path, read(path)]),
);
const source = [...modules.values()].filter(({ path }) => path.startsWith('src/'));

const findings: [title: string, found: string[]][] = [
  ['ring violations', source.flatMap(ringViolations)],
  ['cycles', cycles().map((paths) => paths.map(short).join(' → '))],
  ['folders with one file', lonelyFolders()],
  [`files with more than ${maxFileLines} lines`, longFiles()],
  ['exports that nobody imports', unusedExports()],
];
for (const [title, found] of findings) {
  console.log(`${found.length} ${title}`);
  for (const line of found) console.log(`  ${line}`);
}
printSizes();
process.exitCode = findings.some(([, found]) => found.length > 0) ? 1 : 0;

function read(path: string): Module {
  const text = readFileSync(join(root, path), 'utf8');
  const code = text.replaceAll(/(^|\s)\/\/.*$/gm, '$1').replaceAll(/(^|\s)\/\*[\s\S]*?\*\//g, '$1');
  return { path, lines: text.trimEnd().split('\n').length, code, imports: importsOf(path, code) };
}

function importsOf(path: string, code: string): Import[] {
  const at = (specifier: string) => normalize(join(dirname(path), specifier));
  const fixed = code.matchAll(
    /^(?:import|export)(?: type)? ?([\w$, {}*\n]*?)(?: from )?'(\.[^']+)'/gm,
  );
  const onDemand = code.matchAll(
    /(?:\{([^{}]*)\} = await |(\(await )|)import\(\s*'(\.[^']+)',?\s*\)(?:\)?\.(\w+))?/g,
  );
  return [
    ...[...fixed].map(([, clause = '', from]) => ({ from: at(from!), names: namesIn(clause) })),
    ...[...onDemand].map(([, pattern, , from, member]) => ({
      from: at(from!),
      names: pattern !== undefined ? namesIn(`{${pattern}}`) : [member && member !== 'then' ? member : '*'], // prettier-ignore
    })),
  ];
}

/** `{ a, type B as C }` → a, B. */
function namesIn(clause: string): string[] {
  const list = /\{([^}]*)\}/.exec(clause)?.[1];
  if (list === undefined) return ['*'];
  return list
    .split(',')
    .map((item) => /^(?:type )?([\w$]+)/.exec(item.trim())?.[1] ?? '')
    .filter(Boolean);
}

function ringViolations({ path, imports }: Module): string[] {
  const rule = rules.find(([part]) => part.test(short(path)));
  if (!rule) return [`${path} has no rule`];
  const allowed = new RegExp(rule[1].source.replace('SELF', short(path).split('/')[1] ?? ''));
  return imports
    .filter(({ from }) => !allowed.test(short(from)))
    .map(({ from }) => `${path} imports ${from}`);
}

/** Groups of modules that import each other (Tarjan's strongly connected components). */
function cycles(): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (path: string) => {
    index.set(path, index.size);
    low.set(path, index.get(path)!);
    stack.push(path);
    for (const { from } of modules.get(path)!.imports) {
      if (!modules.has(from)) continue;
      if (!index.has(from)) {
        visit(from);
        low.set(path, Math.min(low.get(path)!, low.get(from)!));
      } else if (stack.includes(from)) {
        low.set(path, Math.min(low.get(path)!, index.get(from)!));
      }
    }
    if (low.get(path) !== index.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) found.push(group);
  };
  for (const { path } of source) if (!index.has(path)) visit(path);
  return found;
}

function lonelyFolders(): string[] {
  const entries = new Map<string, Set<string>>();
  for (const { path } of source) {
    for (let entry = path; entry !== 'src'; entry = dirname(entry)) {
      const folder = dirname(entry);
      entries.set(folder, (entries.get(folder) ?? new Set()).add(entry));
    }
  }
  return [...entries].filter(([, inside]) => inside.size === 1).map(([folder]) => folder);
}

function longFiles(): string[] {
  return source
    .filter(({ lines }) => lines > maxFileLines)
    .map(({ path, lines }) => `${path} has ${lines} lines`);
}

function unusedExports(): string[] {
  const used = new Map<string, Set<string>>();
  for (const { imports } of modules.values()) {
    for (const { from, names } of imports) {
      const all = used.get(from) ?? new Set();
      for (const name of names) all.add(name);
      used.set(from, all);
    }
  }
  return source.flatMap(({ path, code }) => {
    const names = used.get(path) ?? new Set();
    if (names.has('*')) return [];
    const declared = code.matchAll(
      /^export (?:default )?(?:abstract |async |declare )*(?:const|let|function\*?|class|interface|type|enum) ([\w$]+)/gm,
    );
    return [...declared].filter(([, name]) => !names.has(name!)).map(([, name]) => `${path}: ${name}`); // prettier-ignore
  });
}

function printSizes(): void {
  const total = source.reduce((sum, { lines }) => sum + lines, 0);
  console.log(`${source.length} files, ${total} lines; largest:`);
  const largest = source.toSorted((a, b) => b.lines - a.lines).slice(0, largestShown);
  for (const { path, lines } of largest) console.log(`  ${lines} ${path}`);
}

function short(path: string): string {
  return path.replace(/^src\//, '');
}
