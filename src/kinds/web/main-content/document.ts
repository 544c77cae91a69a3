// Decides whether a page is a document: a page of a manual, reference or book, as documentation generators
// write them. The evidence is the page structure, never its URL.
import { isElement, isText, walk, type Element } from '../read/dom.ts';

const generators = new RegExp(
  'sphinx|docutils|doxygen|docbook|mdbook|docusaurus|mkdocs|asciidoc|rustdoc|javadoc|texinfo|' +
    'makeinfo|texi2|gitbook|jsdoc|typedoc|pandoc|vitepress|vuepress|starlight|antora|gtk-?doc|' +
    'gi-docgen|haddock|ex_?doc|hevea|latex2html|tex4ht|pod2|man2html|groff|mandoc|docfx|dokka|' +
    'scaladoc|dartdoc|godoc|ocamldoc|odoc|pdoc|qdoc|naturaldocs|hugo.*doc|bookdown|quarto|epydoc|' +
    'help ?ndoc|madcap|docutil|publican|kramdown-rfc|xml2rfc|rfc2html|naturaldoc',
  'i',
);
/** Class names that documentation generators give to parts of the text. */
const partNames = new Set(
  (
    'docutils toctree-wrapper headerlink versionadded refentry refsect1 sect1 programlisting ' +
    'variablelist docblock example-wrap memitem memdoc memproto theme-doc-markdown sectionbody ' +
    'listingblock admonitionblock method-signature member-signature class-description md-typeset ' +
    'markdown-section rst-content codehilite texinfo node-next itemizedlist informaltable selflink'
  ).split(' '),
);
/** Class names of forum posts. Threads also quote code and have marks on headings. */
const postNames = new Set(
  'postbody postbit postprofile post-body postcontent post_message message-body'.split(' '),
);
const minPosts = 2;
const minPoints = 3;
const headingTags = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6']);

export class DocumentSignals {
  private generated = false;
  private relations = 0;
  private permalinks = 0;
  private pres = 0;
  private codes = 0;
  private terms = 0;
  private namedHeadings = 0;
  private localLinks = 0;
  private named = 0;
  private posts = 0;

  see(element: Element): void {
    const { name, attribs } = element;
    if (name === 'meta' && attribs.name?.toLowerCase() === 'generator')
      this.generated ||= generators.test(attribs.content ?? '');
    else if (name === 'link' && isRelation(attribs.rel)) this.relations++;
    else if (name === 'pre') this.pres++;
    else if (name === 'code') this.codes++;
    else if (name === 'dt') this.terms++;
    else if (headingTags.has(name)) this.seeHeading(element);
    else if (name === 'a' && /^#./.test(attribs.href ?? '')) this.localLinks++;
    if (attribs.class !== undefined) this.seeNames(attribs.class);
  }

  private seeNames(names: string): void {
    for (const one of names.split(/\s+/)) {
      if (partNames.has(one)) this.named++;
      else if (postNames.has(one)) this.posts++;
    }
  }

  private seeHeading(heading: Element): void {
    const { attribs, parent } = heading;
    const above = parent && isElement(parent) ? parent.attribs.id : undefined;
    let isNamed = attribs.id !== undefined || above !== undefined;
    let hasLink = false;
    walk(heading, (node) => {
      if (!isElement(node)) return;
      if (node.name === 'a') {
        isNamed ||= (node.attribs.id ?? node.attribs.name) !== undefined;
        hasLink ||= /^#./.test(node.attribs.href ?? '') || isPermalink(node);
      }
    });
    if (isNamed) this.namedHeadings++;
    if (hasLink) this.permalinks++;
  }

  /**
   * Scores the evidence. A generator name alone is enough. Weaker signs must occur together, because blogs
   * have some of them.
   */
  isDocument(isArticle: boolean): boolean {
    if (this.posts >= minPosts) return false;
    if (this.generated || this.named >= minPoints) return true;
    if (isArticle) return false;
    let points = 0;
    if (this.permalinks >= 3) points += 2;
    if (this.relations >= 2) points++;
    if (this.pres >= 2 || this.codes >= 10) points++;
    if (this.terms >= 3) points++;
    if (this.namedHeadings >= 3) points++;
    if (this.localLinks >= 5) points++;
    if (this.named > 0) points++;
    return points >= minPoints;
  }
}

function isRelation(rel: string | undefined): boolean {
  return rel !== undefined && /^(?:prev|previous|next|up|contents|index|start|toc)$/i.test(rel);
}

/** The permalink mark of a heading. */
function isPermalink({ attribs, children }: Element): boolean {
  if (!attribs.href?.includes('#')) return false;
  const text = children
    .map((child) => (isText(child) ? child.data : ''))
    .join('')
    .trim();
  return /^(?:¶|#|§|🔗|\u{F0C1}|\u200B)?$/u.test(text);
}
