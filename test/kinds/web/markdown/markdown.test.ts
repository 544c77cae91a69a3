// Renders page Markdown back to HTML with a CommonMark and GFM renderer and compares it with the page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import MarkdownIt from 'markdown-it';
import { readPage } from '../../../../src/kinds/web/read/page.ts';
import type { PageOptions } from '../../../../src/kinds/web/read/types.ts';

const renderer = new MarkdownIt({ html: true });

async function markdownOf(html: string, options: Partial<PageOptions> = {}): Promise<string> {
  const all = { url: 'https://site.test/dir/page', contentType: 'text/html' };
  const page = await readPage(html, { ...all, onlyMainContent: false, ...options });
  return page.markdown!;
}

test('text that looks like Markdown stays text', async () => {
  const texts = {
    emphasis: '2 * 3 * 4, *no em*, **no bold**, _u_, snake_case_name, __init__, ~~gone~~, price*',
    links: 'See [x](y), ![i](z), [1](2), [ref] and [a]: b, a ] b, wow![x]',
    definition: '[foo]: http://evil.test "title"',
    tags: 'Use <div> or </p>, <!-- c -->, a < b, <http://a.test/>, &amp; &copy; &lt; AT&T',
    code: 'A `tick`, ``two``, C:\\path\\*star and \\# \\[x\\] \\',
    heading: '# no heading',
    lists: '1. no list',
    parenthesis: '12) no list',
    dash: '- no list',
    plus: '+ no list',
    quote: '> no quote',
    year: '1986. A great year',
    tilde: '~5 min, ~~~ no fence, ~x~',
    cjk: '日本語*強調*です、＊全角＊',
  };
  const escaped = (text: string) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  for (const [name, text] of Object.entries(texts)) {
    const shown = escaped(text);
    const places = [
      `<p>${shown}</p>`,
      `<ul><li>${shown}</li><li>two words</li></ul>`,
      `<h2>${shown}</h2>`,
      `<blockquote>${shown}</blockquote>`,
      `<table><tr><th>Name</th><th>Value</th></tr><tr><td>key</td><td>${shown} | ${shown}</td></tr></table>`,
      `<p>Before <b>bold</b> ${shown} <a href="/x">${shown}</a><i>${shown}</i></p>`,
      `<dl><dt>${shown}</dt><dd>${shown}</dd></dl>`,
    ];
    for (const html of places) await assertSame(html, name);
  }
});

test('lines that would start or end a block stay text', async () => {
  await assertSame('<p>a word<br>---</p><p>b<br>===</p><p>12.</p><p>c<br>- d</p><p>e<br># f</p>');
  await assertSame(
    '<p>| a | b |<br>| --- | --- |</p><p>x|y<br>-|-</p><p>a<br>~~~<br>b</p><p>a<br><br>---</p><p>c<br><br>===<br><br>- d</p>',
  );
  await assertSame('<h3>C# and F#</h3><h3>Trailing #</h3><h2><b>Bold</b> and <b>more</b></h2>');
});

test('markup is written only where a renderer recognizes it', async () => {
  const html =
    '<p><b>bold</b>text, <b>“quoted”</b>word, <b>Note:</b>text, <b>注意：</b>これ, <b>x</b><b>y</b>, <i>a</i><b>b</b>, ' +
    '<b>a*b</b>, <b><i>both</i></b>, <del>old</del>, word<i>(x)</i>word, <code>a</code><code>b</code>, <b> sp </b>x</p>';
  await assertSame(html);
  const markdown = await markdownOf(html);
  assert.match(markdown, /^\*\*bold\*\*text/);
  assert.match(markdown, /\*\*xy\*\*, .*\*\*\*both\*\*\*, ~~old~~/);
});

test('links and pictures keep their URLs for any text and URL', async () => {
  const html = `<p><a href="/a(b)c">x</a> <a href="/a b">sp</a> <a href="/q?y=(">open</a> <a href="/t">te[x]t ] b</a> Wow!<a href="/w">w</a>
    <a href="mailto:a@b.test">mail</a> <a href="/i"><img src="i.png" alt="An [icon] *x*"></a> https://site.test/_under_score_/~me</p>`;
  const markdown = await markdownOf(html, { includeImages: true });
  const back = renderer.render(markdown);
  const targets = [...back.matchAll(/<a href="([^"]+)"/g)].map(([, target]) => target);
  assert.deepEqual(targets, [
    'https://site.test/a(b)c',
    'https://site.test/a%20b',
    'https://site.test/q?y=%28',
    'https://site.test/t',
    'https://site.test/w',
    'mailto:a@b.test',
    'https://site.test/i',
  ]);
  assert.match(back, /Wow!<a/);
  assert.match(
    back,
    /<a href="[^"]*\/i"><img src="https:\/\/site\.test\/dir\/i\.png" alt="An icon \*x\*"/,
  );
  assert.match(markdown, / https:\/\/site\.test\/_under_score_\/~me$/, 'can be copied');
});

test('code stays unchanged, even in lists and next to line numbers', async () => {
  const html = `<p>Use <code>\`</code>, <code>\`\`a\`\`</code> and <code>&lt;b&gt; *x* \\</code></p>
    <ol start="0"><li>Step:<pre><code class="language-md">\`\`\`js\n  code()\n\n\`\`\`</code></pre>after</li><li value="5">five</li></ol>
    <table><tr><td><pre>1\n2</pre></td><td><pre><span>one</span>\n<b>  two</b></pre></td></tr></table>`;
  const markdown = await markdownOf(html);
  const back = renderer.render(markdown);
  assert.match(back, /<code>`<\/code>, <code>``a``<\/code> and <code>&lt;b&gt; \*x\* \\<\/code>/);
  assert.match(back, /<code class="language-md">```js\n {2}code\(\)\n\n```\n<\/code>/);
  assert.match(back, /<code>one\n {2}two\n<\/code>/);
  assert.doesNotMatch(markdown, /^1$/m);
  assert.match(markdown, /^0\. Step:[^]*^5\. five$/m);
});

test('symbols stay table cells, joiners stay in words, and ruby text follows its characters', async () => {
  const html =
    '<table><tr><th>Feature</th><th>Free</th><th>Paid</th></tr><tr><td>Crawl</td><td>✓</td><td><span>–</span></td></tr></table>' +
    '<p>می‌خواهم 👩‍👩‍👧 family, <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby> as read</p>';
  const markdown = await markdownOf(html);
  assert.match(markdown, /\| Crawl \| ✓ \| – \|/);
  assert.match(markdown, /می‌خواهم 👩‍👩‍👧 family, 漢\(kan\) as read/);
});

test('invisible text is removed from code, pictures, feeds and plain text', async () => {
  const tags = (shift: number) =>
    Array.from('SECRET', (char) => String.fromCodePoint(shift + char.charCodeAt(0))).join('');
  const unseen = tags(0xe0000) + tags(0xe00f0) + '\u200D\u2066';
  const hidden = '<span style="display:none">INJECTION<img src="x.png" alt="INJECTION"></span>';
  const pages = [
    `<p>Words here ${hidden}</p><pre>some code ${hidden}${unseen}</pre><p><code>x${unseen}${hidden}</code> 😀${unseen}</p>`,
    `<p>Words</p>${'<div>'.repeat(210)}<p>deep words <i>${'<b>'.repeat(210)}x ${hidden}</i></p>`,
  ];
  for (const html of pages) assertSeen(await markdownOf(html, { includeImages: true }));
  const entry = `<p>Seen *words* of the <a href="/e">entry</a></p>${hidden}<script>INJECTION</script>`;
  const feed = `<rss version="2.0"><channel><title>A *feed*</title><item><title>One [x]</title><link>/a_(b</link>
    <description><![CDATA[${entry}]]></description></item></channel></rss>`;
  const read = await markdownOf(feed, { contentType: 'application/rss+xml' });
  assertSeen(read);
  assert.equal(
    read,
    '# A \\*feed\\*\n\n## [One \\[x\\]](https://site.test/a_%28b)\n\nSeen \\*words\\* of the [entry](https://site.test/e)',
  );
  const rss = { url: 'https://site.test/', contentType: 'application/rss+xml' };
  const { text } = await readPage(feed, { ...rss, formats: ['text'] });
  assert.equal(text, 'A *feed*\nOne [x]\nSeen *words* of the entry');
  assertSeen(await markdownOf(`plain text${unseen}`, { contentType: 'text/plain' }));
});

function assertSeen(markdown: string): void {
  assert.doesNotMatch(markdown, /INJECTION|[\u200D\u2066\u{E0000}-\u{E01FF}]/u);
}

async function assertSame(html: string, name = ''): Promise<void> {
  const markdown = await markdownOf(`<main><p>Some words.</p>${html}</main>`);
  const want = visible(`<p>Some words.</p>${html.replace(/<(\/?)dt>/g, '<$1p>')}`);
  assert.equal(visible(renderer.render(markdown)), want, `${name}: ${markdown}`);
}

/** Returns the visible text without whitespace, because block spacing may differ. */
function visible(html: string): string {
  return html
    .replace(/<\/?[a-z][^>]*>/g, '')
    .replace(/&(lt|gt|quot|amp);/g, (_, name: string) => entities[name]!)
    .replace(/\s+/g, '');
}

const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', amp: '&' };
