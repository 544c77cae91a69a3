// Detects the language of a code block from the markup of highlighters and documentation generators: Sphinx,
// mdBook, rustdoc, Docusaurus, MkDocs, Prism, highlight.js, Shiki, Rouge, Pandoc, GitHub.
import { byName } from '../../../runtime/by-name.ts';
import { isElement, walk, type Element } from '../read/dom.ts';

/** Attributes that contain the language. */
const attributes = [
  'data-lang',
  'data-language',
  'data-code-lang',
  'data-code-language',
  'data-enlighter-language',
];
/** Class name prefixes before the language. */
const prefixed =
  /^(?:language|lang|highlight-source|highlight-text|highlight|brush|code|src|sourceCode)[-:]([a-z][a-z0-9+#_.-]{0,29})$/i;
/** The language follows this class name as a separate class. */
const highlighters = new Set(
  'hljs sourcecode shiki astro-code prism-code prettyprint brush: src rust-example-rendered chroma'.split(
    ' ',
  ),
);
const notLanguages = new Set(
  (
    'none default plain plaintext plain-text nohighlight no-highlight highlight copy auto block ' +
    'line lines container wrapper box unknown undefined source html-basic'
  ).split(' '),
);
const otherNames: Record<string, string> = byName({
  python3: 'python',
  ipython3: 'ipython',
  'c++': 'cpp',
  js: 'js',
  'html+jinja': 'jinja',
  'html-basic': 'html',
});
/** Languages accepted as the whole class name of `pre` or `code`. */
const bareNames = new Set(
  (
    'python python3 pycon py rust javascript js typescript ts jsx tsx java kotlin scala groovy swift ' +
    'objectivec c cpp c++ csharp fsharp go golang ruby php perl lua haskell ocaml elixir erlang clojure ' +
    'lisp scheme julia r matlab sql postgresql mysql bash sh shell zsh powershell console shell-session ' +
    'json json5 jsonc yaml toml ini xml html css scss less markdown md diff makefile cmake dockerfile ' +
    'nginx apache graphql protobuf latex tex vim dart zig nim asm wasm text'
  ).split(' '),
);
/** Wrappers around a `pre`: copy button, colours, frame. */
const maxLevels = 4;
const wrapperTags = new Set(['div', 'figure', 'span', 'pre', 'code-block', 'section']);

export function codeLanguage(pre: Element): string {
  const inner: Element[] = [];
  walk(pre, (node) => {
    if (isElement(node) && (node.name === 'code' || node.name === 'pre')) inner.push(node);
  });
  // With several code elements in one block, no single one determines the language.
  const codes = inner.filter(({ name }) => name === 'code');
  const own = [...(codes.length === 1 ? codes : []), ...inner.filter(({ name }) => name === 'pre')];
  for (const element of own) {
    const name = languageOf(element, true);
    if (name !== undefined) return name;
  }
  let at = pre.parent;
  for (let level = 0; level < maxLevels && isElement(at) && wrapsOne(at); level++) {
    const name = languageOf(at, false);
    if (name !== undefined) return name;
    at = at.parent;
  }
  return '';
}

/** Wraps only one code block. The class of a section says nothing about each of its examples. */
function wrapsOne(element: Element): boolean {
  if (!wrapperTags.has(element.name)) return false;
  let pres = 0;
  walk(element, (node) => {
    if (!isElement(node)) return;
    if (node.name !== 'pre') return pres < 2;
    pres++;
    return false;
  });
  return pres === 1;
}

function languageOf({ attribs }: Element, isCode: boolean): string | undefined {
  for (const name of attributes) {
    const language = named(attribs[name]);
    if (language !== undefined) return language;
  }
  const words = (attribs.class ?? '').split(/[\s;]+/).filter(Boolean);
  for (const word of words) {
    const language = named(prefixed.exec(word)?.[1]);
    if (language !== undefined) return language;
  }
  const isMarked = words.some((word) => highlighters.has(word.toLowerCase()));
  if (!isCode && !isMarked) return undefined;
  return named(words.find((word) => bareNames.has(word.toLowerCase())));
}

function named(text: string | undefined): string | undefined {
  if (text === undefined || !/^[a-z][\w+#.-]{0,29}$/i.test(text)) return undefined;
  const name = text.toLowerCase();
  const known = otherNames[name];
  if (known !== undefined) return known;
  return notLanguages.has(name) ? undefined : name;
}
