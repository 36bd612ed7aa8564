/** Entries of the matrix for the command line: each argument and option of each command. */

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { Command } from 'commander';
import { createLocalMaster } from '#cli/local-master.ts';
import { runCommandLine } from '#cli/program.ts';
import { StandardInput } from '#cli/standard-input.ts';
import { addSubcommands } from '#cli/subcommands.ts';
import { connectExtension, connectMaster } from '#client';
import type { Entry, Outcome } from './entry.ts';
import type { HostileSite } from './site.ts';
import { textOf } from './values.ts';

/**
 * Commands that start a server and run until they are interrupted. The matrix tries only arguments
 * with which they end before the start.
 */
const servers: ReadonlySet<string> = new Set(['demo', 'master', 'metadata-agent', 'minion']);

/** Maximum length of one argument of a Linux process. */
const maxArgumentBytes = 131_071;

/** Time after which a command is interrupted, in milliseconds. */
const interruptMs = 250;

/**
 * Names of arguments that may be paths. The matrix also writes their hostile values into a file.
 */
const fileNames = /file|path|template|policy|rules|data|input|catalog/i;

/** Returns the entries. The commands read and write files in a temporary directory. */
export async function cliEntries(site: HostileSite): Promise<readonly Entry[]> {
  const place = path.join(site.directory, 'cli', 'a', 'b', 'c', 'd');
  mkdirSync(place, { recursive: true });
  writeFileSync(path.join(place, 'master'), `root_dir: ${path.join(place, 'root')}\n`);
  // Hostile paths are relative to this directory.
  process.chdir(place);
  const program = new Command('saltbridge');
  await addSubcommands(program, { ...contextOf(site, ''), setExitCode: () => {} }, () => true);
  return leavesOf(program, []).map(({ command, names }) => cliEntry(site, place, command, names));
}

interface Leaf {
  readonly command: Command;
  readonly names: readonly string[];
}

function leavesOf(command: Command, names: readonly string[]): readonly Leaf[] {
  if (command.commands.length === 0) return [{ command, names }];
  return command.commands.flatMap((it) => leavesOf(it, [...names, it.name()]));
}

function cliEntry(
  site: HostileSite,
  place: string,
  command: Command,
  names: readonly string[],
): Entry {
  const [first = ''] = names;
  const positional = command.registeredArguments.map((it) => it.name());
  const options = command.options.filter((it) => it.required || it.optional);
  const hasConfig = options.some((it) => it.long === '--config-dir');
  const words = [...positional, ...options.map((it) => it.long ?? it.short ?? '')];
  const files = words.filter((it) => fileNames.test(it)).map((it) => `${it} content`);
  const fields = servers.has(first)
    ? [...(hasConfig ? ['--config-dir'] : []), '--unknown']
    : [...words, ...files, 'input', 'extra', '--unknown'];
  return {
    name: `command ${names.join(' ')}`,
    fields,
    maxBytes: maxArgumentBytes,
    isOfOperator: true,
    isAlone: true,
    prepare: (field, value) => {
      const text = textOf(value).slice(0, maxArgumentBytes).replaceAll('\0', '');
      const [name = '', isContent] = field.split(' ');
      const file = path.join(place, 'hostile-file');
      if (isContent !== undefined) writeFileSync(file, text);
      // With a directory that exists, a server would start and never end.
      const isServed = servers.has(first) && name === '--config-dir' && existsSync(text);
      const given = isContent === undefined && !isServed ? text : file;
      const config = hasConfig && name !== '--config-dir' ? ['-c', place] : [];
      const values = command.registeredArguments
        .filter((it) => it.required || it.name() === name)
        .map((it) => (it.name() === name ? given : 'x1'));
      const option = name.startsWith('-') ? [`${name}=${given}`] : [];
      const extra = field === 'extra' ? [...positional.map(() => 'x1'), text] : values;
      const argv = [...names, ...config, ...option, '--', ...extra];
      return () => runCommand(site, argv, field === 'input' ? text : '');
    },
  };
}

async function runCommand(
  site: HostileSite,
  argv: readonly string[],
  input: string,
): Promise<Outcome> {
  const output = { text: '' };
  const code = await runCommandLine(argv, contextOf(site, input, output), '1.2.3');
  const isDefect = /unexpected error/.test(output.text) || /\n +at .*\.ts:\d+/.test(output.text);
  return {
    answer: `exit ${code}`,
    ...(isDefect ? { defect: `exit ${code}: ${output.text.slice(-400)}` } : {}),
  };
}

type Context = Parameters<typeof runCommandLine>[1];

function contextOf(site: HostileSite, input: string, output = { text: '' }): Context {
  const { socket: socketPath } = site.master.config;
  const collect = (): Writable =>
    new Writable({
      write: (chunk, _encoding, done) => {
        output.text = `${output.text}${chunk}`.slice(-10_000);
        done();
      },
    });
  return {
    ...createLocalMaster({}),
    stdout: collect(),
    stderr: collect(),
    ask: undefined,
    askSecret: undefined,
    tokenFile: path.join(site.directory, 'token'),
    input: new StandardInput(() => Readable.from([Buffer.from(input)])),
    interruption: () => AbortSignal.timeout(interruptMs),
    openApi: async () => connectMaster({ socketPath }),
    openExtension: async (_directory, name) => connectExtension({ socketPath }, name),
    openKeys: async () => ({ keys: site.master.keys, close: async () => {} }),
  };
}
