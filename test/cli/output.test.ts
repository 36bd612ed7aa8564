import { existsSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import type { Logger } from 'pino';
import { formatNested } from '#cli/output/nested.ts';
import { formatNoReturn, formatRaw, formatTxt, formatValuesOnly } from '#cli/output/outputters.ts';
import { formatJson, formatPprint, wrapText } from '#cli/output/value-text.ts';
import { terminalColors } from '#cli/terminal.ts';
import type { LogLevel } from '#config';
import { type MasterOptions, resolveMasterConfig } from '#config';
import { fromJson } from '#master';
import { formatYaml, WireDateTime, WireExtension, type WireValue } from '#minion-protocol';
import { createLogger, LogFile, type MasterLog, openMasterLog } from '#server/process/log.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { readCases } from './fixture.ts';
import { TextStream } from './run-cli.ts';

interface JsonCase {
  readonly value: unknown;
  readonly pretty: string;
  readonly compact: string;
}

const cases = readCases<JsonCase>('json.json');

/** Escapes the characters that we escape and Python does not. The JSON document stays the same. */
function withEscapes(json: string): string {
  return json.replace(
    /[\x85\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

test('values are written with an indent as Salt writes them', (t) => {
  t.true(cases.length >= 70);
  t.deepEqual(
    cases.map(({ value }) => formatJson(fromJson(value), { indent: 4 })),
    cases.map(({ pretty }) => withEscapes(pretty)),
  );
});

test('values are written on one line as Salt writes them', (t) => {
  t.deepEqual(
    cases.map(({ value }) => formatJson(fromJson(value))),
    cases.map(({ compact }) => withEscapes(compact)),
  );
});

test('keys that are bytes, dates and extensions keep their content', (t) => {
  const value = new Map([
    [new Uint8Array([0x6b, 0xff]), new WireDateTime('2024-01-02T03:04:05.000000')],
  ]);
  t.is(formatJson(value), '{"b\'k\\\\xff\'": "2024-01-02T03:04:05.000000"}');
  t.is(formatJson(new WireExtension(5, new Uint8Array([1]))), '[5, "b\'\\\\x01\'"]');
});

test('printed output is the same document and has no control characters', (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 }), fc.nat(8), (value, indent) => {
      const text = formatJson(fromJson(value), { indent });
      t.notRegex(text, /(?!\n)[\p{Cc}\u2028-\u202e\u2066-\u2069]/u);
      t.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('text that would control a terminal is escaped', (t) => {
  t.is(formatJson('\x1b[31m\x9b\x7f\u202e'), '"\\u001b[31m\\u009b\\u007f\\u202e"');
});

interface NestedCase {
  readonly value: unknown;
  readonly plain: string;
  readonly color: string;
  readonly failed: string;
  readonly noReturn?: string;
  readonly noReturnColor?: string;
}

function silentMinion(value: unknown): [string, string] {
  const [[minion, reason] = ['', '']] = Object.entries(Object(value));
  return [minion, String(reason)];
}

const nestedCases = readCases<NestedCase>('nested.json');

test('values are printed as Salt prints them', (t) => {
  t.true(nestedCases.length >= 70);
  t.deepEqual(
    nestedCases.map(({ value }) => formatNested(fromJson(value))),
    nestedCases.map(({ plain }) => plain),
  );
});

test('colours are those of Salt', (t) => {
  t.deepEqual(
    nestedCases.map(({ value }) => formatNested(fromJson(value), { colors: terminalColors })),
    nestedCases.map(({ color }) => color),
  );
});

test('the structure of a failure is red as in Salt', (t) => {
  const options = { colors: terminalColors, isFailure: true };
  t.deepEqual(
    nestedCases.map(({ value }) => formatNested(fromJson(value), options)),
    nestedCases.map(({ failed }) => failed),
  );
});

test('a silent minion is printed as Salt prints it', (t) => {
  const recorded = nestedCases.find(({ plain }) => plain.includes('did not return'));
  const [minion, reason] = silentMinion(recorded?.value);
  t.is(formatNoReturn(minion, reason), recorded?.noReturn?.trimEnd() ?? '');
  t.is(formatNoReturn(minion, reason, terminalColors), recorded?.noReturnColor?.trimEnd() ?? '');
});

test('dates and extensions, which Salt does not print, are printed by their content', (t) => {
  t.is(formatNested(new WireDateTime('2024-01-02T03:04:05.000006')), '2024-01-02T03:04:05.000006');
  t.is(formatNested([new WireExtension(5, Buffer.from('x'))]), '|_\n  - 5\n  - x');
});

test('control characters cannot reach the terminal', (t) => {
  const evil = '\x1b]0;title\x07 \x9b31m \x7f \u202e';
  const shown = formatNested({ [`id\n\t${evil}`]: evil });
  t.is(shown.split('\n').length, 2);
  t.is(
    shown,
    'id\\n\\t\\x1b]0;title\\x07 \\x9b31m \\x7f \\u202e:\n    ?]0;title\\x07 \\x9b31m \\x7f \\u202e',
  );
});

test('the id of a silent minion cannot reach the terminal', (t) => {
  t.is(formatNoReturn('m\x1b\n1', 'a\x1b\x07\nb'), 'm\\x1b\\n1:\n    a?\\x07\n    b');
});

// Salt's other outputters, compared with the output of Salt itself; see fixtures/cli/record.py.

const outputterCases = readCases<Readonly<Record<string, string>>>('outputters.json');

const formats: Readonly<Record<string, (value: WireValue) => string>> = {
  yaml: (value) => formatYaml(value),
  'yaml 4': (value) => formatYaml(value, { indent: 4 }),
  'yaml -1': (value) => formatYaml(value, { indent: -1 }),
  pprint: (value) => formatPprint(value),
  'pprint 4': (value) => formatPprint(value, 4),
  raw: formatRaw,
  txt: formatTxt,
  newline_values_only: formatValuesOnly,
};

for (const [name, format] of Object.entries(formats)) {
  test(`${name} prints what Salt prints`, (t) => {
    for (const { value, ...recorded } of outputterCases) {
      const expected = recorded[name];
      if (expected === undefined) continue;
      const actual = format(new Map([['minion', fromJson(value)]])).trimEnd();
      t.is(actual, expected, JSON.stringify(value));
    }
  });
}

// Expected lines come from Python 3.11's `textwrap.TextWrapper(width=80, …).fill`.

const blanks = ' '.repeat(14);

test('lines are broken at blanks and behind hyphens', (t) => {
  const text =
    'The function module.run is using its deprecated version and will expire in a ' +
    'well-known-version, so please-do update this state at your-convenience now ok';
  t.deepEqual(wrapText(text, 80, 14).split('\n'), [
    `${blanks}The function module.run is using its deprecated version and will`,
    `${blanks}expire in a well-known-version, so please-do update this state at`,
    `${blanks}your-convenience now ok`,
  ]);
});

test('text longer than a line is cut', (t) => {
  const lengths = wrapText('x'.repeat(150), 80, 14)
    .split('\n')
    .map((line) => line.trim().length);
  t.deepEqual(lengths, [66, 66, 18]);
});

test('breaks become blanks, several blanks inside a line stay', (t) => {
  t.is(wrapText('a  b\nc', 80, 0), 'a  b c');
});

test('on a pipe, the log has one JSON object per line, at the requested level', (t) => {
  const stderr = new TextStream();
  const logger = createLogger('warning', stderr);
  logger.warn({ minion: 'a\nb\x1b[2J' }, 'kept');
  logger.info('dropped');
  const [line = '', ...rest] = stderr.text.split('\n');
  t.is(JSON.parse(line).minion, 'a\nb\x1b[2J');
  t.deepEqual(rest, ['']);
});

test('on a terminal, the log has readable lines, and escapes control characters of peers', (t) => {
  const stderr = new TextStream({ isTTY: true });
  createLogger('info', stderr).info({ minion: 'a\x1b[2J' }, 'signed in');
  t.regex(stderr.text, /INFO.*signed in\n/);
  t.false(stderr.text.includes('\x1b[2J'));
});

interface OpenLog {
  readonly log: MasterLog;
  /** Lines that the console and the log file received. */
  readonly lines: () => { readonly console: string[]; readonly file: string[] };
}

function openLog(t: ExecutionContext, levels: Partial<MasterOptions>, level?: LogLevel): OpenLog {
  const file = path.join(temporaryDirectory(t), 'master');
  const stderr = new TextStream();
  const config = resolveMasterConfig({ logFile: file, ...levels });
  const log = openMasterLog(config, { stderr, level, owner: undefined });
  t.teardown(() => log.close());
  const lines = (): ReturnType<OpenLog['lines']> => ({
    console: messagesIn(stderr.text),
    file: messagesIn(readFileSync(file, 'utf8')),
  });
  return { log, lines };
}

function messagesIn(text: string): string[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line).msg);
}

function writeEach(logger: Logger): void {
  logger.debug('debug');
  logger.info('info');
  logger.warn('warning');
}

test('console and log file have separate levels', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'warning', logLevelLogfile: 'debug' });
  writeEach(log.logger);
  t.deepEqual(lines(), { console: ['warning'], file: ['debug', 'info', 'warning'] });
});

test('the log file has the level of the console unless it has its own', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'warning' }, 'info');
  writeEach(log.logger);
  t.deepEqual(lines(), { console: ['info', 'warning'], file: ['info', 'warning'] });
});

test('levels can change, also for existing child loggers', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'quiet', logLevelLogfile: 'warning' });
  const derived = log.logger.child({ component: 'a' }).child({ minion: 'b' });
  log.setLevels(resolveMasterConfig({ logLevel: 'info', logLevelLogfile: 'debug' }));
  writeEach(derived);
  t.deepEqual(lines(), { console: ['info', 'warning'], file: ['debug', 'info', 'warning'] });
});

test('a log file that cannot be opened is reported on the console, or refused without one', (t) => {
  const config = resolveMasterConfig({ logFile: '/dev/null/master' });
  const stderr = new TextStream();
  const { logger } = openMasterLog(config, { stderr, level: undefined, owner: undefined });
  logger.warn('goes on');
  t.deepEqual(messagesIn(stderr.text), [
    'cannot open the file in the option `log_file`; logging continues on the console',
    'goes on',
  ]);
  const alone = { stderr: undefined, level: undefined, owner: undefined };
  t.throws(() => openMasterLog(config, alone), { code: 'EEXIST' });
});

test('an address is not accepted as a log file', (t) => {
  const config = resolveMasterConfig({ logFile: 'file:///dev/log' });
  const stderr = new TextStream();
  openMasterLog(config, { stderr, level: undefined, owner: undefined }).logger.warn('goes on');
  t.deepEqual(messagesIn(stderr.text), ['goes on']);
});

test('a log file and its folder are created, and not readable by all users', (t) => {
  const file = path.join(temporaryDirectory(t), 'log', 'salt', 'master');
  const log = new LogFile(file);
  t.teardown(() => log.close());
  log.write('one\n');
  t.is(readFileSync(file, 'utf8'), 'one\n');
  t.is(statSync(file).mode & 0o007, 0);
  t.is(statSync(path.dirname(file)).mode & 0o007, 0);
});

test('a log file that was moved away is written to until it is reopened', (t) => {
  const file = path.join(temporaryDirectory(t), 'master');
  const log = new LogFile(file);
  t.teardown(() => log.close());
  renameSync(file, `${file}.1`);
  log.write('old\n');
  t.false(existsSync(file));
  log.reopen();
  log.write('new\n');
  t.is(readFileSync(`${file}.1`, 'utf8'), 'old\n');
  t.is(readFileSync(file, 'utf8'), 'new\n');
});

test('a full disk drops log lines, and causes no other failure', (t) => {
  const log = new LogFile('/dev/full');
  t.teardown(() => log.close());
  t.notThrows(() => log.write('one\n'));
});
