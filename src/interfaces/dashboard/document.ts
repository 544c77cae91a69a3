// The HTML document of every view. URLs are relative to the path that this server sees, so that it works below any path of
// a proxy: the browser derives the base from the address of the script.
import type { Entries } from './bundle.ts';

/** Views of the dashboard. The browser decides what to show; other paths belong to the API. */
const views =
  /^\/((jobs|endpoints|crawls|escrow|start)(\/[^/]+)?|overview|queues|nodes|webhooks|keys|connect|sessions|login)?$/;

export const isView = (path: string): boolean => views.test(path);

export function documentFor(path: string, entries: Entries): string {
  const depth = path.split('/').length - 2;
  const asset = (name: string) => `${depth === 0 ? './' : '../'.repeat(depth)}assets/${name}`;
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width,initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Errand</title>',
    `<link rel="icon" href="${asset(entries.icon)}">`,
    `<link rel="stylesheet" href="${asset(entries.styles)}">`,
    `<script type="module" src="${asset(entries.script)}" data-worker="${entries.worker}" data-terminal-styles="${entries.terminalStyles}"></script>`,
    '</head>',
    '<body>',
    '<div id="app"></div>',
    '<noscript>The dashboard needs JavaScript. Without it, use the command line: errand list.</noscript>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}
