// Parses a page once for all readers, as a browser shows it.
import type { DomHandlerOptions } from 'htmlparser2';
import { htmlparser2 } from '../../../runtime/packages.ts';
import { endBogusComments } from './bogus-comments.ts';
import type { Document } from './dom.ts';
import { mayBeStreamed, placeStreamed } from './streamed.ts';

export function parseHtml(html: string, options: DomHandlerOptions = {}): Document {
  const text = endBogusComments(html);
  const root = htmlparser2().parseDocument(text, { decodeEntities: true, ...options });
  if (mayBeStreamed(text)) placeStreamed(root);
  return root;
}
