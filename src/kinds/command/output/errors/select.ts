// Selects the lines to show for the errors in a log: the errors and what a person needs to understand them (the test or
// file, expected and received values, the first stack frame in the user's own code). Pure.
import { unprefixed, type Unprefixed } from './prefix.ts';
import {
  hasPlace,
  isLocated,
  kindOf,
  mayMatter,
  regionOf,
  type LineKind,
  type RuleOptions,
} from './rules.ts';

/** `error`: a line that a person would point at. `context`: helps to understand one; omitted first if space is short. */
export type Mark = 'error' | 'context';

/** How far below and above an error related lines are searched. */
const maxBelow = 80;
const maxAbove = 40;
const maxFrames = 3;
const maxDetails = 30;
const maxContinuation = 3;
/** Plain lines within a block (the unchanged part of a diff) do not end it. */
const maxPlain = 16;
/** After compared values, a report may continue without indentation before it names the location. */
const maxLoose = 2;
const maxRows = 2000;

export function markErrors(texts: readonly string[], options: RuleOptions = {}): Map<number, Mark> {
  return new Selection(texts, options).marks();
}

class Selection {
  private readonly options: RuleOptions;
  private readonly lines: readonly Unprefixed[];
  /** Every line has a timestamp, even empty and indented ones: a runner adds it, and it says nothing about the line. */
  private readonly stamped: boolean;
  private readonly kinds = new Map<number, LineKind>();
  private readonly chosen = new Map<number, Mark>();

  constructor(texts: readonly string[], options: RuleOptions) {
    this.lines = texts.map(unprefixed);
    this.options = options;
    this.stamped = this.lines.some(({ timed, text }) => timed && /^(?:\s|$)/.test(text));
  }

  marks(): Map<number, Mark> {
    const errors: number[] = [];
    const warnings: number[] = [];
    const numbered: number[] = [];
    let failures = false;
    let skipTo: RegExp | undefined;
    for (let i = 0; i < this.lines.length; i++) {
      const { text } = this.line(i);
      if (skipTo?.test(text)) skipTo = undefined;
      if (skipTo) this.kinds.set(i, 'fine');
      else if (mayMatter(this.line(i).text)) {
        const kind = this.kind(i);
        if (kind === 'error') errors.push(i);
        else if (kind === 'warning') warnings.push(i);
        else if (kind === 'heading' && isNumbered(text)) numbered.push(i);
        failures ||= kind === 'error' && saysFailures(text);
        skipTo = regionOf(text, this.options);
        if (skipTo) errors.splice(errors.indexOf(i), 1);
      }
    }
    // `1) title` lists the failed tests in a report that counts failures.
    if (failures) for (const i of numbered) this.choose(i, 'error');
    if (warnings.length * 2 <= errors.length || errors.length === 0) errors.push(...warnings);
    for (const i of errors) this.choose(i, 'error');
    for (const i of errors) {
      this.above(i);
      this.below(i);
      if (!this.options.without?.has('go')) this.loggedBefore(i);
    }
    return this.chosen;
  }

  private line(i: number): Unprefixed {
    return this.lines[i]!;
  }

  private kind(i: number): LineKind {
    let kind = this.kinds.get(i);
    if (!kind) {
      const { text, timed } = this.line(i);
      this.kinds.set(i, (kind = kindOf(text, timed && !this.stamped, this.options)));
    }
    return kind;
  }

  /** The next line of the same process. */
  private after(i: number): number | undefined {
    const { source } = this.line(i);
    for (let j = i + 1; j < Math.min(i + maxBelow, this.lines.length); j++)
      if (this.line(j).source === source) return j;
    return undefined;
  }

  private choose(i: number, mark: Mark): void {
    if (this.chosen.get(i) !== 'error') this.chosen.set(i, mark);
  }

  /** Selects the nearest heading (test, file, package), and the lines directly before the error. */
  private above(i: number): void {
    const { source, text } = this.line(i);
    if (isRow(text)) return this.fileAbove(i);
    const between: number[] = [];
    let adjacent = true;
    for (let j = i - 1; j >= Math.max(i - maxAbove, 0); j--) {
      const line = this.line(j);
      if (line.source !== source) continue;
      if (line.text.trim() === '') {
        adjacent = false;
        continue;
      }
      const kind = this.kind(j);
      if (kind === 'heading') {
        this.choose(j, isTitle(line.text) ? 'error' : 'context');
        // `1) suite`, followed by the test title on its own lines.
        const titles = between.filter((k) => indentOf(this.line(k).text) > indentOf(line.text));
        if (isNumbered(line.text) && titles.length === between.length && titles.length <= 2)
          for (const k of titles) this.choose(k, 'error');
        return;
      }
      if (kind === 'error' || kind === 'warning' || kind === 'fine') return;
      if (isPointed(line.text)) this.choose(j, 'error');
      adjacent &&= between.length < 3;
      if (adjacent && kind === 'plain' && hasPlace(line.text)) this.choose(j, 'error');
      if (kind === 'frame' && /^[\s|]*File "/.test(line.text)) return this.choose(j, 'error');
      if (kind === 'plain') between.push(j);
    }
  }

  /** `go test -v` prints test logs while the test runs, and reports `--- FAIL` later. */
  private loggedBefore(i: number): void {
    const { source, text } = this.line(i);
    const name = /^\s*--- FAIL: (\S+)/.exec(text)?.[1];
    if (name === undefined) return;
    for (let j = i - 1; j >= Math.max(i - maxRows, 0); j--) {
      const line = this.line(j);
      if (
        line.source !== source ||
        !line.text.startsWith('=== RUN') ||
        !line.text.endsWith(` ${name}`)
      )
        continue;
      for (
        let k = j + 1;
        k < Math.min(j + maxBelow, i) && !/^\s*(?:===|---) /.test(this.line(k).text);
        k++
      )
        if (this.line(k).source === source) this.choose(k, 'error');
      return;
    }
  }

  /** Rows such as `3:7  error  …` are below the name of their file. */
  private fileAbove(i: number): void {
    const { source } = this.line(i);
    for (let j = i - 1; j >= Math.max(i - maxRows, 0); j--) {
      const line = this.line(j);
      if (line.source !== source) continue;
      // An earlier row already selected the file.
      if (isRow(line.text)) {
        if (this.chosen.has(j)) return;
        continue;
      }
      if (line.text.trim() !== '' && !/^\s/.test(line.text)) this.choose(j, 'error');
      return;
    }
  }

  private below(i: number): void {
    const { source, text } = this.line(i);
    const indent = indentOf(text);
    const own: number[] = [];
    let expectsMessage = /[:>]\s*$/.test(text);
    let details = 0;
    let continued = 0;
    let plain = 0;
    let blanks = 0;
    let loose = 0;
    let code = 0;
    let last: LineKind = 'error';
    for (let j = i + 1; j < Math.min(i + maxBelow, this.lines.length); j++) {
      const line = this.line(j);
      if (line.source !== source || isRuler(line.text)) continue;
      if (line.text.trim() === '') {
        if (++blanks > 2) break;
        continue;
      }
      const kind = this.kind(j);
      const before = last;
      last = kind;
      if (kind === 'error' || kind === 'fine' || kind === 'heading' || kind === 'warning') break;
      if (kind === 'frame') own.push(j);
      else if (kind === 'detail') {
        if (++details > maxDetails) break;
        this.choose(j, 'error');
        // `Got:`, followed by the value.
        expectsMessage = /:\s*$/.test(line.text);
      } else if (kind === 'code') {
        if (code < maxFrames && this.isTelling(j)) {
          code++;
          this.choose(j, 'context');
        }
      } else if (kind === 'plain') {
        const after = this.after(j);
        const next = after === undefined ? 'plain' : this.kind(after);
        if (isSecondTrace(line.text)) this.chooseFrames(own.splice(0));
        if (expectsMessage) this.choose(j, 'error');
        else if (isLocated(line.text.trimStart())) this.choose(j, 'error');
        else if (next === 'code' && isCaret(this.line(after!).text)) {
          if (code++ < maxFrames) this.choose(j, 'context');
        } else if (next === 'frame' || next === 'library' || before === 'frame') continue;
        else if (
          blanks === 0 &&
          indentOf(line.text) > indent &&
          details + continued < maxContinuation
        ) {
          continued++;
          this.choose(j, 'context');
        } else if (/^\s|^[{}[\])]/.test(line.text) || isTraceHeading(line.text)) {
          if (++plain > maxPlain) break;
        } else if (details === 0 || ++loose > maxLoose) break;
        expectsMessage = false;
      }
      blanks = 0;
    }
    this.chooseFrames(own);
  }

  /** In a code frame: the line that is meant and remarks below it, not the surrounding lines. */
  private isTelling(i: number): boolean {
    const { text } = this.line(i);
    if (/^\s*>\s*\d+ ?[|│]|[\^~─╰]+ *[A-Za-z(\x60]/.test(text)) return true;
    const after = this.after(i);
    return /^\s*\d+ ?[|│]/.test(text) && after !== undefined && isCaret(this.line(after).text);
  }

  /** Python prints the frame of the error last, other languages first. */
  private chooseFrames(own: readonly number[]): void {
    if (own.length === 0) return;
    const lastFirst = /^[\s|]*File "/.test(this.line(own[0]!).text);
    const nearest = lastFirst ? own.slice(-maxFrames).toReversed() : own.slice(0, maxFrames);
    nearest.forEach((j, n) => this.choose(j, n === 0 ? 'error' : 'context'));
    if (lastFirst) {
      const code = this.after(nearest[0]!);
      if (code !== undefined && this.kind(code) === 'plain') this.choose(code, 'context');
    }
  }
}

const indentOf = (text: string): number => text.length - text.trimStart().length;
const isRow = (text: string): boolean => /^\s+\d+:\d+\s/.test(text);
const isNumbered = (text: string): boolean => /^\s*\d+\) \S/.test(text);
const saysFailures = (text: string): boolean =>
  /\b[1-9]\d* (?:failing|failures?|failed)\b|^Failures:|^There w(?:as|ere) \d+ (?:failure|error)/.test(
    text,
  );
/** True for lines that only contain decoration. */
const isRuler = (text: string): boolean =>
  text.trim().length > 0 && !/[\p{L}\p{N}^~({[]/u.test(text);
const isTitle = (text: string): boolean => /^\s*\d+\) |^_|^In |^----/.test(text);
/** The source line that failed, as pytest marks it. */
const isPointed = (text: string): boolean => /^>\s{2,}\S/.test(text);
const isCaret = (text: string): boolean => /^[\s|│:╵·]*[\^~─][\s^~|─┬-]*/.test(text);
/** `freed by thread T0 here:` begins another trace of the same error. */
const isSecondTrace = (text: string): boolean => /^\w+ by .*\bhere:$/.test(text);
const isTraceHeading = (text: string): boolean =>
  /^(?:goroutine \d+|stack backtrace|created by|Stack trace|Call Stack|During handling|The above exception)/.test(
    text,
  );
