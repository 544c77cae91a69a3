// Generates config files as people have them: comments, tabs, CRLF, byte order marks, trailing commas, duplicate names,
// unicode, empty files. The seed determines every file.
import { createRandom } from '../properties/generate.ts';

export interface OddFile {
  text: string;
  hasBom: boolean;
}

class Choice {
  private readonly random: () => number;

  constructor(seed: number) {
    this.random = createRandom(seed);
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  is(probability: number): boolean {
    return this.random() < probability;
  }

  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }
}

const names = [
  'files',
  'git-server',
  'errands',
  'näme',
  '日本',
  'a b',
  'x.y',
  'constructor',
  '__proto__',
  'weird"quote',
];
const texts = [
  'npx',
  '/usr/bin/node',
  'C:\\tools\\x.exe',
  'ünï',
  '😀',
  '',
  '// no comment',
  '/* neither */',
  'a\tb',
  '# x',
  '{',
  '}',
  '[',
  '"',
  "'",
];

function server(choice: Choice): Record<string, unknown> {
  return {
    command: choice.of(texts),
    ...(choice.is(0.7)
      ? { args: Array.from({ length: choice.below(4) }, () => choice.of(texts)) }
      : {}),
    ...(choice.is(0.4) ? { env: { [choice.of(names)]: choice.of(texts) } } : {}),
    ...(choice.is(0.2) ? { disabled: choice.is(0.5), timeout: choice.below(1000) } : {}),
  };
}

interface JsonStyle {
  unit: string;
  isInline: boolean;
  comments: boolean;
  trailingComma: boolean;
}

function printJson(value: unknown, choice: Choice, style: JsonStyle, depth = 0): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const [open, close] = isList ? ['[', ']'] : ['{', '}'];
  const items = isList
    ? value.map((each) => printJson(each, choice, style, depth + 1))
    : Object.entries(value).map(
        ([name, own]) =>
          `${JSON.stringify(name)}${choice.is(0.1) ? ' ' : ''}:${choice.is(0.9) ? ' ' : ''}${printJson(own, choice, style, depth + 1)}`,
      );
  const remark = () =>
    style.comments && choice.is(0.25)
      ? ` // ${choice.of(texts.filter((text) => text !== ''))}`
      : '';
  const block = () =>
    style.comments && choice.is(0.2)
      ? `/* ${choice.of(['x', 'two\nlines', '"errand": {}'])} */`
      : '';
  if (items.length === 0)
    return open + (choice.is(0.2) ? ' ' : '') + block() + (choice.is(0.2) ? '\n' : '') + close;
  if (style.isInline || choice.is(0.15)) {
    const comma = style.trailingComma && choice.is(0.5) ? ',' : '';
    return `${open}${choice.is(0.5) ? ' ' : ''}${items.join(choice.is(0.7) ? ', ' : ',')}${comma}${choice.is(0.5) ? ' ' : ''}${close}`;
  }
  const inner = style.unit.repeat(depth + 1);
  const lines = items.map((item, at) => {
    const isLast = at === items.length - 1;
    const comma =
      !isLast || (style.trailingComma && choice.is(0.6)) ? `${choice.is(0.1) ? ' ' : ''},` : '';
    return `${inner}${item}${comma}${remark()}`;
  });
  const lead = style.comments && choice.is(0.2) ? `\n${inner}// ${choice.of(names)}` : '';
  const end = style.comments && choice.is(0.15) ? `\n${inner}${block() || '// the end'}` : '';
  const gap = choice.is(0.15) ? '\n' : '';
  return `${open}${lead}\n${lines.join(gap === '' ? '\n' : '\n\n')}${end}${gap}\n${style.unit.repeat(depth)}${close}`;
}

const lineEndings = (text: string, choice: Choice): string => {
  const kind = choice.of(['\n', '\n', '\n', '\r\n', 'mixed']);
  if (kind === '\n') return text;
  return text.replaceAll('\n', () => (kind === '\r\n' || choice.is(0.3) ? '\r\n' : '\n'));
};

export function oddJson(seed: number, path: readonly string[], isStrict: boolean): OddFile {
  const choice = new Choice(seed);
  const hasBom = !isStrict && choice.is(0.1);
  if (choice.is(0.05)) return { text: choice.of(['', '\n', '  \n\n']), hasBom };
  const servers = Object.fromEntries(
    Array.from({ length: choice.below(4) }, () => [choice.of(names), server(choice)]),
  );
  const own = choice.is(0.85) ? { [path[0]!]: servers } : {};
  const others = [
    ['theme', choice.of(texts)],
    ['projects', { '/a/b': { mcpServers: servers, history: [1, 2.5, null, true] } }],
    ['numStartups', 12],
    ['$schema', 'https://example.com/schema.json'],
  ].filter(() => choice.is(0.5)) as [string, unknown][];
  const before = choice.below(others.length + 1);
  const value = Object.fromEntries([
    ...others.slice(0, before),
    ...Object.entries(own),
    ...others.slice(before),
  ]);
  const style = {
    unit: choice.of(['  ', '    ', '\t', ' ']),
    isInline: choice.is(0.15),
    comments: !isStrict && choice.is(0.6),
    trailingComma: !isStrict && choice.is(0.4),
  };
  let text = printJson(value, choice, style);
  if (choice.is(0.08) && Object.hasOwn(value, path[0]!)) {
    // Duplicate names: the last one applies.
    text = text.replace(/^\{/, `{${JSON.stringify(path[0])}: {"old": {"command": "x"}},`);
  }
  if (style.comments && choice.is(0.3)) text = `// ${choice.of(names)}\n${text}\n/* end */`;
  return { text: lineEndings(text + choice.of(['', '\n', '\n\n', '  ']), choice), hasBom };
}

const tomlString = (text: string, choice: Choice): string => {
  if (choice.is(0.2) && !/['\n\t]/.test(text)) return `'${text}'`;
  if (choice.is(0.15) && !text.includes('"') && !text.includes('\\'))
    return `"""\n${text}\n[mcp_servers.fake]\n"""`;
  return JSON.stringify(text);
};

export function oddToml(seed: number): OddFile {
  const choice = new Choice(seed);
  const hasBom = false;
  if (choice.is(0.05)) return { text: choice.of(['', '\n', '# only a comment', '\n\n']), hasBom };
  const remark = () =>
    choice.is(0.3) ? ` # ${choice.of(['x', '[mcp_servers.errand]', '"'])}` : '';
  const lines = [
    ...(choice.is(0.4) ? ['# Codex settings', ''] : []),
    `model = ${tomlString(choice.of(texts.filter((text) => !text.includes('\t'))), choice)}${remark()}`,
    ...(choice.is(0.4) ? [`notify = [${remark()}`, `  "a",${remark()}`, '  "b"', ']'] : []),
    ...(choice.is(0.3) ? [`when = 2026-11-18T10:00:00Z${remark()}`, 'big = 9007199254740993'] : []),
    ...(choice.is(0.2) ? ['mcp_servers.dotted.command = "x"'] : []),
  ];
  const keys = ['files', '"näme"', "'a b'", 'git-server', '"x.y"', 'constructor'];
  const used = new Set<string>();
  for (let at = choice.below(4); at > 0; at--) {
    const key = choice.of(keys);
    if (used.has(key)) continue;
    used.add(key);
    lines.push(...(choice.is(0.8) ? [''] : []), ...(choice.is(0.3) ? [`# server ${key}`] : []));
    lines.push(
      `${choice.is(0.1) ? '  ' : ''}[mcp_servers.${choice.is(0.2) ? ' ' : ''}${key}]${remark()}`,
    );
    lines.push(
      `command = ${tomlString('npx', choice)}`,
      `args = ["-y", ${tomlString('pkg', choice)}]${remark()}`,
    );
    if (choice.is(0.3)) lines.push('env = { A = "1", "B" = \'2\' }');
    if (choice.is(0.3)) lines.push(`[mcp_servers.${key}.tools.run]`, 'approve = true');
  }
  if (choice.is(0.4))
    lines.push('', '[[profiles]]', 'name = "x"', '', '[projects."/a/b"]', 'trust = "yes"');
  if (choice.is(0.3)) lines.push('# the end');
  const text = lines.join('\n') + choice.of(['', '\n', '\n\n']);
  return { text: lineEndings(text, choice), hasBom };
}

export function oddYaml(seed: number): OddFile {
  const choice = new Choice(seed);
  const hasBom = choice.is(0.05);
  if (choice.is(0.08))
    return {
      text: choice.of([
        '',
        '\n',
        '# only a comment\n',
        '---\n',
        '{}',
        '{}\n',
        'extensions:\n',
        'extensions: {}\n',
        'extensions: ~ # none\n',
        'extensions:',
      ]),
      hasBom,
    };
  const pad = choice.of(['  ', '    ']);
  const remark = () => (choice.is(0.3) ? ` # ${choice.of(['x', 'errand:', '{'])}` : '');
  const lines = [
    ...(choice.is(0.2) ? ['---'] : []),
    ...(choice.is(0.4) ? ['# goose settings', ''] : []),
    `GOOSE_MODEL: ${choice.of(['gpt', '"quoted: x"', "'it''s'", 'ünï'])}${remark()}`,
  ];
  const block = choice.is(0.85);
  if (block) {
    const isFlow = choice.is(0.15);
    if (isFlow)
      lines.push(
        `extensions: ${choice.of(['{}', '{ a: {cmd: x} }', '{a: {cmd: x}, b: {cmd: y}}'])}${remark()}`,
      );
    else {
      lines.push(`extensions:${remark()}`);
      if (choice.is(0.3)) lines.push(`${pad}# first`);
      for (const [at, name] of ['developer', 'näme', '"a b"', 'memory'].entries()) {
        if (at > 0 && choice.is(0.5)) continue;
        if (choice.is(0.2)) lines.push('');
        if (choice.is(0.2)) lines.push(`${pad}# about ${name}`);
        lines.push(`${pad}${name}:${remark()}`, `${pad}${pad}enabled: true${remark()}`);
        if (choice.is(0.5))
          lines.push(`${pad}${pad}args:`, `${pad}${pad}- a`, `${pad}${pad}- "b: c"`);
        if (choice.is(0.2))
          lines.push(
            `${pad}${pad}note: |${choice.of(['', '-', '+'])}`,
            `${pad}${pad}  line one`,
            `${pad}${pad}  errand:`,
            '',
          );
        if (choice.is(0.2)) lines.push(`${pad}${pad}timeout: 300`);
      }
    }
  }
  if (choice.is(0.5))
    lines.push(...(choice.is(0.5) ? ['', '# other'] : []), 'other:', '- 1', '- two');
  if (choice.is(0.1)) lines.push('...');
  const text = lines.join('\n') + choice.of(['', '\n', '\n\n']);
  return { text: lineEndings(text, choice), hasBom };
}
