// Groups common names for the parts of a page into families: names in class and id attributes, and short
// texts on buttons and above sections. The lexicon only knows the words of its training pages; families are
// predefined, so they work for any site. They are input for the forest, which learns whether reviews or
// related articles belong to the text.
import { byName } from '../../../runtime/by-name.ts';
import type { Block, Ancestor } from './blocks.ts';

/** Words in class and id names, in lower case, separated by spaces. */
const nameFamilies = {
  frame:
    'nav navbar navigation menu megamenu submenu footer masthead topbar breadcrumbs? pagination ' +
    'pager sitemap offcanvas hamburger skip toolbar drawer',
  share: 'share sharing social follow sharedaddy addtoany addthis',
  related:
    'related recommend recommended recommendations? similar upsells? cross_?sells? also trending ' +
    'popular more_from you_may recent recently viewed latest suggest(?:ed|ions?)? teasers? promos? ' +
    'next_up read_more readnext',
  notice:
    'cookies? consent gdpr newsletter subscribe subscription signup sign_up popup modal overlay ' +
    'banner ads? advert[a-z]* sponsor[a-z]* cta alert toast notification',
  filter:
    'filters? filtering facets? sort sorting refine[a-z]* sidebar side_bar widgets? rail aside ' +
    'secondary',
  about:
    'byline author meta metadata timestamp date tags? categor(?:y|ies) avatar profile signature ' +
    'badges? user(?:name|info)? poster stats votes? reactions? likes',
  review: 'reviews? ratings? comments? disqus questions? qa qna feedback testimonials?',
  buy:
    'prices? pricing cart buy buybox purchase swatch(?:es)? variants? options? qty quantity sizes? ' +
    'shipping delivery wishlist stock offers?',
  body:
    'content article post entry body prose markdown rte wysiwyg description desc rich_?text story ' +
    'text editor copy main',
  detail:
    'specs? specifications? features? details? attributes accordion tabs? tab_?panel faqs? overview ' +
    'summary',
  card: 'cards? tiles? product_?item grid items? listing results? list products? thumb[a-z]*',
};

interface TextFamily {
  /** Patterns for the start of a text. */
  starts?: readonly string[];
  /** Patterns for any position in a text. */
  contains?: readonly string[];
}

/**
 * Short texts in lower case and without accents, in English, German, French, Spanish, Italian, Portuguese and
 * Dutch.
 */
const textFamilies: Record<string, TextFamily> = byName({
  related: {
    starts: [
      'related|recommended|similar|trending|popular|latest|featured|see also|up next|new arrivals',
      'more (?:from|like|in|on|posts|articles|stories|products|news)|you (?:may|might)',
      '(?:customers|people|shoppers|others|guests) (?:also|who)|also (?:like|bought|viewed)',
      'recently (?:viewed|added)|frequently bought|explore (?:more|related)',
      'keep (?:reading|exploring)|read (?:next|also)|what to read|most (?:read|popular|viewed)',
      'top (?:stories|posts)|best ?sellers|complete (?:the|your)|pairs? well|goes (?:well )?with',
      "inspired by|don't miss|editor'?s'? picks?",
      'ahnliche|das konnte|kunden (?:kauften|haben)|passend|mehr (?:aus|zum|von)|meistgelesen',
      '(?:articles?|produits?) (?:lies|similaires)|vous aimerez|a lire aussi|les plus lus|voir aussi',
      '(?:articulos|productos|noticias) relacionad[ao]s|tambien te|te puede|lo mas (?:leido|visto)',
      'ti potrebbe|prodotti (?:correlati|simili)|leggi anche|voce tambem|relacionados|veja tambem',
      'gerelateerde?|anderen bekeken|lees ook|meer over',
    ],
  },
  review: {
    starts: ['what (?:our )?(?:customers|people|clients) (?:are )?say', 'avis'],
    contains: [
      'reviews?|ratings?|testimonials|questions (?:&|and) answers|q ?& ?a',
      'bewertung(?:en)?|rezension(?:en)?|opiniones|recension[ei]|avaliacoes|beoordelingen',
    ],
  },
  detail: {
    starts: [
      '(?:product |item |full |key |more |technical |about (?:this|the) )?(?:description|details|' +
        'specifications?|specs|features|overview|highlights|ingredients|materials?|dimensions|' +
        "benefits|information|what's (?:included|in the box)|item|how (?:to use|it works)|care|" +
        'size (?:&|and) fit)',
      '(?:produkt)?beschreibung|produkt(?:details|informationen)|technische daten|eigenschaften',
      'caracteristiques|fiche technique|descripcion|caracteristicas|especificaciones|descrizione',
      'descricao|specificaties|omschrijving|kenmerken',
    ],
  },
  terms: {
    contains: [
      'shipping|returns?|refunds?|warranty|guarantee|payment|delivery|size (?:guide|chart)',
      'financing|pick ?up|in stock|out of stock|sold out',
      'versand|lieferung|ruckgabe|garantie|livraison|retours?|envio|devoluciones|spedizione',
      'consegna|entrega|verzending|levering',
    ],
  },
  frame: {
    starts: ['choose your|select (?:a |your )?(?:country|language|location)'],
    contains: [
      'sign (?:in|up|out)|log ?(?:in|out)|register|subscribe|newsletter|cookies?|privacy',
      'terms of|all rights reserved|copyright|follow us|contact us|about us|careers|site ?map',
      'help cent(?:er|re)|customer (?:service|care)|my account|skip to|back to top|accessibility',
      'download (?:the|our) app|stay (?:connected|up to date|in touch)',
      'anmelden|impressum|datenschutz|agb|se connecter|mentions legales|confidentialite',
      'iniciar sesion|aviso legal|privacidad|accedi|entrar|inloggen|voorwaarden',
    ],
  },
  filter: {
    starts: [
      'filters?|sort(?:ed)?|refine|clear (?:all|filters?)|show(?:ing)?|view(?:ing)? [0-9]|results',
      '[0-9]+ (?:results|items|products)|price(?: range)?|brands?|colou?rs?|sizes?|availability',
      'rating|categor(?:y|ies)|shop by|in stock|page [0-9]|per page|items per|apply|reset|display',
      'filtern|sortieren|marken?|farben?|preis|filtres?|filtrer|trier|marques?|couleurs?|prix',
      'filtrar|ordenar|marcas?|colores|precio|filtra|ordina|prezzo|filteren|sorteer|merken|kleur',
    ],
  },
  action: {
    starts: [
      'add to|buy (?:now|it)|read (?:more|full|the)|learn more|quick (?:view|shop|add|look)|compare',
      'view (?:all|more|details|product|profile|full)|shop (?:now|all|the)|load more',
      'see (?:more|all|details)|show (?:more|less|all)|reply|report|like|quote|edit|share|save',
      'print|copy|close|next|prev(?:ious)?|submit|search|menu|more|expand|get started|start',
      'try (?:it )?(?:free|now)|book (?:now|a)|request a|download|watch|play|choose|select|continue',
      'in den warenkorb|jetzt kaufen|weiterlesen|mehr (?:erfahren|anzeigen|lesen)|antworten|teilen',
      'ajouter|acheter|lire la suite|en savoir plus|voir (?:plus|tout)|repondre|partager|signaler',
      'anadir|comprar|leer mas|ver (?:mas|todo)|responder|compartir|aggiungi|acquista|scopri',
      'condividi|adicionar|saiba mais|ler mais|toevoegen|lees (?:meer|verder)|bekijk|delen|reageer',
    ],
  },
  thread: {
    starts: [
      'comments?|leave a (?:comment|reply)|posted|joined|posts?|messages|replies|reactions?|views',
      'likes?|last (?:edited|activity|reply|post)|edited|written by|by|author|published|updated',
      '[0-9]+ (?:comments?|replies|likes|views|posts|points|min|minutes?|hours?|days?|weeks?|' +
        'months?|years?)|min read',
      'kommentare?|beitrage|geschrieben|vor [0-9]|commentaires?|publie|il y a|comentarios?',
      'publicado|hace [0-9]|commenti|pubblicato|reacties|geplaatst',
    ],
  },
  contents: {
    starts: [
      '(?:table of )?contents|on this page|in this (?:article|guide|section|post)|jump to',
      'quick links|navigation|inhalt(?:sverzeichnis)?|auf dieser seite|sommaire|contenido|indice',
      'table des matieres|in questo articolo|neste artigo|inhoud',
    ],
  },
  question: {
    starts: [
      'faqs?|frequently asked|common questions|have (?:a )?questions?|haufige fragen',
      'questions frequentes|preguntas frecuentes|domande frequenti|perguntas frequentes',
      'veelgestelde vragen',
    ],
  },
});

/** A longer text is prose, not a label. */
const maxLabelWords = 9;
const maxLabelChars = 120;
const maxNameChars = 400;

const namePatterns = Object.values(nameFamilies).map(
  (words) => new RegExp(`\\b(?:${words.replaceAll(' ', '|').replaceAll('_', ' ')})\\b`),
);
const textPatterns = Object.values(textFamilies).map(textPattern);

export const nameFamilyNames: readonly string[] = Object.keys(nameFamilies);
export const textFamilyNames: readonly string[] = Object.keys(textFamilies);

function textPattern({ starts = [], contains = [] }: TextFamily): RegExp {
  const parts = [];
  if (starts.length > 0) parts.push(`^(?:${starts.join('|')})\\b`);
  if (contains.length > 0) parts.push(`\\b(?:${contains.join('|')})\\b`);
  return new RegExp(parts.join('|'));
}

/** Cache. Pages repeat the same names many times. */
const known = new Map<string, number>();
const maxKnown = 20_000;

/** Returns the families of an element's own names, one bit per family. */
export function nameFamiliesOf({ element }: Ancestor): number {
  const { class: classes, id } = element.attribs;
  if (classes === undefined && id === undefined) return 0;
  const key = `${classes ?? ''} ${id ?? ''}`.slice(0, maxNameChars);
  let bits = known.get(key);
  if (bits !== undefined) return bits;
  const names = key
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replace(/[^a-z]+/g, ' ');
  bits = matching(namePatterns, names);
  if (known.size >= maxKnown) known.clear();
  known.set(key, bits);
  return bits;
}

/** Returns the families of a block's text, one bit per family. */
export function textFamiliesOf({ text, words }: Block): number {
  if (words > maxLabelWords) return 0;
  const plain = text
    .slice(0, maxLabelChars)
    .normalize('NFD')
    .replace(/\p{M}+/gu, '')
    .replace(/’/g, "'")
    .toLowerCase()
    .replace(/^[^\p{L}\p{N}]+/u, '');
  return matching(textPatterns, plain);
}

function matching(patterns: readonly RegExp[], text: string): number {
  let bits = 0;
  patterns.forEach((pattern, i) => {
    if (pattern.test(text)) bits |= 1 << i;
  });
  return bits;
}
