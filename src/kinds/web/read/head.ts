// Reads title, metadata, links and directives from a stream of tags. The parser feeds it directly when no
// tree is needed; otherwise a tree walk does.
import { tidy } from './dom.ts';
import type { PageLink, PageMetadata, PageOptions, PageRobots } from './types.ts';

type Attributes = Readonly<Record<string, string>>;

const maxLinks = 20_000;
const maxLinkTextChars = 300;
const maxValueChars = 2000;
const maxImages = 2000;
/** A slower refresh reloads the page and is not a redirect. */
const maxRefreshSeconds = 10;

export class HeadReader {
  readonly links: PageLink[] = [];
  readonly images: { url: string; alt: string }[] = [];
  readonly robots: PageRobots = { noindex: false, nofollow: false };
  readonly ldBlocks: string[] = [];
  refresh: string | undefined;
  scripts = 0;
  private readonly page: URL | undefined;
  private base: URL | undefined;
  private readonly meta = new Map<string, string>();
  private readonly feeds: string[] = [];
  private readonly seen = new Map<string, number>();
  private readonly resolved = new Map<string, URL | null>();
  private readonly wantsImages: boolean;
  private readonly robotsNames: readonly string[];
  private language: string | undefined;
  private canonicalHref: string | undefined;
  private icon: string | undefined;
  private titleText: string | undefined;
  private headingText: string | undefined;
  private timeText: string | undefined;
  private gathering: 'title' | 'h1' | 'ld' | undefined;
  private gathered: string[] = [];
  private link: { url: string; rel: string[]; parts: string[]; chars: number } | undefined;
  private svgDepth = 0;

  constructor({ url, botName }: Pick<PageOptions, 'url' | 'botName'>, wantsImages = false) {
    this.page = URL.canParse(url) ? new URL(url) : undefined;
    this.base = this.page;
    this.robotsNames = ['robots', ...(botName === undefined ? [] : [botName.toLowerCase()])];
    this.wantsImages = wantsImages;
  }

  open(name: string, attribs: Attributes): void {
    switch (name) {
      case 'a':
      case 'area':
        return this.openLink(attribs);
      case 'meta':
        return this.readMeta(attribs);
      case 'link':
        return this.readLink(attribs);
      case 'img':
        return this.readImage(attribs);
      case 'script':
        return this.openScript(attribs);
      case 'html':
        this.language = attribs.lang ?? attribs['xml:lang'] ?? this.language;
        return;
      case 'base':
        if (attribs.href !== undefined) this.base = this.resolve(attribs.href) ?? this.base;
        this.resolved.clear();
        return;
      case 'svg':
        this.svgDepth++;
        return;
      case 'title':
        if (this.titleText === undefined && this.svgDepth === 0) this.gather('title');
        return;
      case 'h1':
        if (this.headingText === undefined) this.gather('h1');
        return;
      case 'time':
        this.timeText ??= attribs.datetime;
        return;
      default:
    }
  }

  text(data: string): void {
    if (this.gathering) this.gathered.push(data);
    const { link } = this;
    if (link && link.chars < maxLinkTextChars) {
      link.parts.push(data);
      link.chars += data.length;
    }
  }

  close(name: string): void {
    if (name === 'a') this.closeLink();
    else if (name === 'svg') this.svgDepth = Math.max(0, this.svgDepth - 1);
    else if (
      this.gathering &&
      (name === this.gathering || (name === 'script' && this.gathering === 'ld'))
    )
      this.keep();
  }

  get canonical(): string | undefined {
    return this.canonicalHref === undefined ? undefined : this.resolve(this.canonicalHref)?.href;
  }

  get title(): string | undefined {
    return this.titleText || this.meta.get('og:title') || this.headingText || undefined;
  }

  metadata(): PageMetadata {
    const { meta } = this;
    const first = (...names: string[]) => names.map((name) => meta.get(name)).find(Boolean);
    const social = [...meta].filter(([name]) =>
      /^(?:og|twitter|article|product|book|profile|video|music):/.test(name),
    );
    const keywords = meta
      .get('keywords')
      ?.split(',')
      .map((word) => word.trim())
      .filter(Boolean);
    const image = first('og:image', 'og:image:url', 'twitter:image', 'twitter:image:src');
    return withoutEmpty({
      title: this.title,
      description: first('description', 'og:description', 'twitter:description', 'dc.description'),
      language: this.language?.trim() || first('content-language', 'og:locale', 'dc.language'),
      author: first('author', 'article:author', 'dc.creator', 'parsely-author', 'twitter:creator'),
      published: first(...publishedNames) ?? this.timeText,
      modified: first('article:modified_time', 'og:updated_time', 'last-modified', 'datemodified'),
      siteName: first('og:site_name', 'application-name'),
      image: image === undefined ? undefined : this.resolve(image)?.href,
      type: meta.get('og:type'),
      keywords: keywords?.length ? keywords.slice(0, 50) : undefined,
      canonical: this.canonical,
      favicon: this.icon === undefined ? undefined : this.resolve(this.icon)?.href,
      feeds: this.feeds.length > 0 ? this.feeds : undefined,
      social: Object.fromEntries(social.slice(0, 100)),
    });
  }

  /** Remembers each result: pages repeat their links, and Markdown resolves them again. */
  resolve(href: string): URL | undefined {
    const known = this.resolved.get(href);
    if (known !== undefined) return known ?? undefined;
    const url = URL.parse(href.trim(), this.base?.href);
    this.resolved.set(href, url);
    return url ?? undefined;
  }

  private openLink({ href, rel }: Attributes): void {
    this.closeLink();
    if (href === undefined || href === '' || href.startsWith('#') || this.links.length >= maxLinks)
      return;
    if (/^\s*(?:javascript|mailto|tel|data|sms|blob|about):/i.test(href)) return;
    const url = this.resolve(href);
    if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return;
    const words = rel === undefined ? [] : rel.toLowerCase().split(/\s+/).filter(Boolean);
    this.link = { url: url.href, rel: words, parts: [], chars: 0 };
  }

  private closeLink(): void {
    const { link } = this;
    if (!link) return;
    this.link = undefined;
    const text = tidy(link.parts.join('')).slice(0, maxLinkTextChars);
    const known = this.seen.get(link.url);
    if (known === undefined) {
      this.seen.set(link.url, this.links.length);
      this.links.push({ url: link.url, text, rel: link.rel });
      return;
    }
    const before = this.links[known]!;
    if (before.text === '') before.text = text;
    // One followable link to a URL is enough to follow it.
    if (!link.rel.includes('nofollow'))
      before.rel = before.rel.filter((word) => word !== 'nofollow');
  }

  private readMeta(attribs: Attributes): void {
    const content = attribs.content;
    if (content === undefined) return;
    const name = (attribs.property ?? attribs.name ?? attribs.itemprop ?? '').trim().toLowerCase();
    const equiv = attribs['http-equiv']?.toLowerCase();
    if (equiv === 'refresh') this.readRefresh(content);
    else if (equiv === 'content-language') this.meta.set('content-language', content);
    if (name === '') return;
    if (this.robotsNames.includes(name)) this.readRobots(content);
    if (!this.meta.has(name)) this.meta.set(name, tidy(content).slice(0, maxValueChars));
  }

  private readRobots(content: string): void {
    // A directive's value (`max-image-preview: none`) is not itself a directive.
    const words = content
      .toLowerCase()
      .replace(/[\w-]+\s*:[^,]*/g, '')
      .split(/[\s,]+/);
    if (words.includes('noindex') || words.includes('none')) this.robots.noindex = true;
    if (words.includes('nofollow') || words.includes('none')) this.robots.nofollow = true;
  }

  private readRefresh(content: string): void {
    const match = /^\s*(\d*\.?\d*)\s*[;,]?\s*(?:url\s*=\s*)?["']?([^"']*)/i.exec(content);
    if (!match?.[2] || Number(match[1] || 0) > maxRefreshSeconds) return;
    const url = this.resolve(match[2]);
    if (url && /^https?:$/.test(url.protocol)) this.refresh ??= url.href;
  }

  private readLink({ rel, href, type }: Attributes): void {
    if (rel === undefined || href === undefined) return;
    const words = rel.toLowerCase().split(/\s+/);
    if (words.includes('canonical')) this.canonicalHref ??= href;
    if (words.includes('icon')) this.icon ??= href;
    if (words.includes('alternate') && /rss|atom|feed\+json/i.test(type ?? '')) {
      const url = this.resolve(href);
      if (url && this.feeds.length < 20) this.feeds.push(url.href);
    }
  }

  private readImage(attribs: Attributes): void {
    if (this.link && attribs.alt) this.link.parts.push(` ${attribs.alt} `);
    if (!this.wantsImages || this.images.length >= maxImages) return;
    const source = imageSource(attribs);
    const url = source === undefined ? undefined : this.resolve(source);
    if (url && /^https?:$/.test(url.protocol))
      this.images.push({ url: url.href, alt: tidy(attribs.alt ?? '') });
  }

  private openScript({ type }: Attributes): void {
    this.scripts++;
    if (type !== undefined && /ld\+json/i.test(type)) this.gather('ld');
  }

  private gather(what: 'title' | 'h1' | 'ld'): void {
    this.gathering = what;
    this.gathered = [];
  }

  private keep(): void {
    const text = this.gathered.join('');
    if (this.gathering === 'ld') this.ldBlocks.push(text);
    else if (this.gathering === 'title') this.titleText = tidy(text).slice(0, maxValueChars);
    else this.headingText = tidy(text).slice(0, maxValueChars);
    this.gathering = undefined;
    this.gathered = [];
  }
}

const publishedNames = [
  'article:published_time',
  'datepublished',
  'date',
  'pubdate',
  'publish-date',
  'og:published_time',
  'dc.date',
  'dc.date.issued',
  'parsely-pub-date',
  'sailthru.date',
];

/** Lazy images keep their URL in other attributes. Their placeholders are data URLs. */
export function imageSource(attribs: Attributes): string | undefined {
  const { src } = attribs;
  if (src !== undefined && src !== '' && !src.startsWith('data:')) return src;
  return (
    attribs['data-src'] ??
    attribs['data-lazy-src'] ??
    attribs['data-original'] ??
    firstOfSet(attribs.srcset)
  );
}

function firstOfSet(srcset: string | undefined): string | undefined {
  return srcset?.trim().split(/\s+/)[0]?.replace(/,$/, '');
}

function withoutEmpty(value: Record<string, unknown>): PageMetadata {
  return Object.fromEntries(
    Object.entries(value).filter(([, v]) => v !== undefined && v !== ''),
  ) as unknown as PageMetadata;
}
