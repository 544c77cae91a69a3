// Reads links, metadata and structured data in one tokenizer pass, without building a tree.
import { createHash } from 'node:crypto';
import { htmlparser2 } from '../../../runtime/packages.ts';
import { countWords } from '../main-content/blocks.ts';
import { pageHashOf } from './hash.ts';
import { HeadReader } from './head.ts';
import type { PageOptions } from './types.ts';

interface LightPage {
  head: HeadReader;
  /** Words outside scripts and styles. */
  words: number;
  textHash: string;
  pageHash: string;
}

const unread = new Set([
  'script',
  'style',
  'noscript',
  'template',
  'svg',
  'title',
  'textarea',
  'select',
]);

export function readLight(html: string, options: PageOptions, wantsImages: boolean): LightPage {
  const head = new HeadReader(options, wantsImages);
  const hash = createHash('sha256');
  let words = 0;
  let skipped = 0;
  let pending = '';
  const parser = new (htmlparser2().Parser)({
    onopentag(name, attribs) {
      if (unread.has(name)) skipped++;
      head.open(name, attribs);
    },
    ontext(data) {
      head.text(data);
      if (skipped > 0) return;
      pending += data;
      if (pending.length > 8192) take();
    },
    onclosetag(name) {
      if (unread.has(name) && skipped > 0) skipped--;
      head.close(name);
      pending += ' ';
    },
  });
  const take = () => {
    const text = pending.replace(/\s+/g, ' ');
    words += countWords(text);
    hash.update(text);
    pending = '';
  };
  parser.end(html);
  take();
  const textHash = hash.digest('hex');
  return { head, words, textHash, pageHash: pageHashOf(head.title, [textHash]) };
}
