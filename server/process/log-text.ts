/** Log lines as text in the form of Salt's [salt/_logging/impl.py], made from lines of JSON. */

import type { DestinationStream } from 'pino';
import { formatPercent } from '#template/python/format.ts';
import { UsageMeter } from '#template/python/limits.ts';
import { strftime } from '#template/python/strftime.ts';
import { Dict, str, type Value } from '#template/python/values.ts';

/** How a line looks: `log_fmt_*` and `log_datefmt*`. */
export interface LineForm {
  readonly format: string;
  readonly dateFormat: string;
  readonly jidFormat: string;
}

/** pino's levels, in Python's words and numbers. */
const levels: Readonly<Record<number, readonly [name: string, number: number]>> = {
  10: ['TRACE', 5],
  20: ['DEBUG', 10],
  30: ['INFO', 20],
  40: ['WARNING', 30],
  50: ['ERROR', 40],
  60: ['CRITICAL', 50],
};

/** What is in the line by another attribute. */
const ownFields: ReadonlySet<string> = new Set([
  'component',
  'err',
  'hostname',
  'jid',
  'level',
  'msg',
  'part',
  'pid',
  'time',
]);

/** A stream of lines of JSON that hands them on as text. */
export class TextLog implements DestinationStream {
  readonly #stream: DestinationStream;
  readonly #form: LineForm;

  constructor(stream: DestinationStream, form: LineForm) {
    this.#stream = stream;
    this.#form = form;
  }

  write(line: string): void {
    this.#stream.write(`${formatLine(JSON.parse(line), this.#form)}\n`);
  }
}

/** A line of the log, as pino writes it. */
interface LogRecord {
  readonly level: number;
  readonly time: number;
  readonly pid: number;
  readonly msg?: string;
  readonly component?: string;
  readonly part?: string;
  readonly jid?: string;
  readonly err?: { readonly message?: string; readonly code?: string; readonly stack?: string };
  readonly [field: string]: unknown;
}

function formatLine(record: LogRecord, form: LineForm): string {
  const { err } = record;
  const fields = Object.entries(record).filter(([name]) => !ownFields.has(name));
  const words = [
    escapeName(record.msg ?? ''),
    ...fields.map(([name, value]) => `${name}=${textOfField(value)}`),
    ...(err?.message === undefined ? [] : [`err=${textOfField(err.message)}`]),
  ];
  const message = words.join(' ');
  const attributes = attributesOf(record, message, form);
  const line = str(formatPercent(form.format, attributes, UsageMeter.unlimited()));
  // Where the bug is: errors that are thrown on purpose have a code.
  if (err?.stack === undefined || err.code !== undefined) return line;
  const trace = err.stack.split('\n').slice(1);
  return [line, ...trace.map((at) => `  ${escapeName(at.trim())}`)].join('\n');
}

/** Controls, line separators, and marks that turn the direction of writing. */
const unsafe = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

/** Text that stays on its line and shows what it holds. */
function escapeName(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.charCodeAt(0);
    if (character === '\t') return '\\t';
    if (character === '\n') return '\\n';
    if (character === '\x1b') return '?';
    return code > 0xff
      ? `\\u${code.toString(16).padStart(4, '0')}`
      : `\\x${code.toString(16).padStart(2, '0')}`;
  });
}

/** A text on one line: quoted where it has blanks. */
function textOfField(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return escapeName(value);
  return escapeName(JSON.stringify(value) ?? '');
}

/** The attributes that a format of Salt's may name; what there is nothing of is empty, or 0. */
function attributesOf(record: LogRecord, message: string, form: LineForm): Dict {
  const { level, time, pid, component, part, jid } = record;
  const [levelName, levelNumber] = levels[level] ?? ['INFO', 20];
  const name = ['saltbridge', component ?? part].filter((it) => it !== undefined).join('.');
  const date = new Date(time);
  const local = new Date(time - date.getTimezoneOffset() * 60_000);
  const job = jid === undefined ? '' : formatJid(form.jidFormat, escapeName(jid));
  const attributes: Readonly<Record<string, Value>> = {
    asctime: strftime(local, form.dateFormat),
    created: time / 1000,
    msecs: date.getUTCMilliseconds(),
    relativeCreated: Math.round(performance.now()),
    levelname: levelName,
    levelno: levelNumber,
    name,
    module: component ?? part ?? 'saltbridge',
    process: pid,
    processName: 'saltbridge',
    message,
    jid: job,
    colormsg: message,
    colorlevel: `[${levelName.padEnd(8)}]`,
    colorname: `[${name.padEnd(17)}]`,
    colorprocess: `[${String(pid).padStart(5)}]`,
    bracketlevel: `[${levelName.padEnd(8)}]`,
    bracketname: `[${name.padEnd(17)}]`,
    bracketprocess: `[${String(pid).padStart(5)}]`,
    lineno: 0,
    thread: 0,
    threadName: 'MainThread',
    funcName: '',
    filename: '',
    pathname: '',
  };
  return new Dict(Object.entries(attributes));
}

function formatJid(format: string, jid: string): string {
  return format.replaceAll('%(jid)s', jid);
}
