/**
 * Options of the configuration, flags and `salt-cp`, compared with recordings of Salt's own
 * programs.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { TargetPlan } from '#master';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { readCases } from './fixture.ts';
import { type RecordedCommand, replay } from './replay.ts';
import { runCli } from './run-cli.ts';

const commands = readCases<RecordedCommand>('habits.json');

/** Matches messages that we print to standard error and Salt writes to its log. */
const ours = /^saltbridge: /;

/** Creates the files that record-commands.py creates. */
function makeFiles(t: ExecutionContext): string {
  const root = temporaryDirectory(t);
  mkdirSync(path.join(root, 'tree', 'none'), { recursive: true });
  for (const name of ['one', 'tree/two']) {
    writeFileSync(path.join(root, name), `${name}\n`);
    chmodSync(path.join(root, name), 0o640);
  }
  return root;
}

/** Members of the command defaults, by Salt's names of the options. */
const members: Readonly<Record<string, string>> = {
  output: 'output',
  color: 'color',
  state_output: 'stateOutput',
  state_verbose: 'stateVerbose',
  state_output_profile: 'stateOutputProfile',
};

function defaultsOf({ config = {} }: RecordedCommand): Record<string, string | boolean> {
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => [members[name] ?? name, value]),
  );
}

/** Returns a plan for `--preview-target`, because only jobs were recorded. */
function planOf(tgt: string | readonly string[]): TargetPlan {
  const ids = ['m1', 'm2'].filter((id) => tgt === '*' || tgt === id);
  const minions = ids.map((id) => ({ id, reason: 'matched', by: [id] }) as const);
  return { tgt, tgtType: 'glob', minions };
}

/** Matches the help before an error message, which differs from Salt's. */
const help = /^Usage: .*\n$/s;

for (const [index, command] of commands.entries()) {
  const { program = 'salt', argv, config = {}, stdout, stderr, code } = command;
  const title = `${index}: ${program} ${argv.join(' ')} ${JSON.stringify(config)}`;
  test(`${title} prints what Salt prints`, async (t) => {
    const root = makeFiles(t);
    const words = argv.map((word) => word.replace('{dir}', root));
    const outcome = await runCli([program, ...words], {
      master: { jobs: { ...replay(command).jobs, plan: async ({ tgt }) => planOf(tgt) } },
      commandDefaults: defaultsOf(command),
    });
    const printed = outcome.stdout.replaceAll(root, '{dir}');
    if (!help.test(stdout)) t.is(printed, stdout);
    const lines = outcome.stderr.replaceAll(root, '{dir}').split('\n');
    t.is(lines.filter((line) => !ours.test(line)).join('\n'), stderr);
    t.is(outcome.code, code);
  });
}

interface ListedCommand extends Pick<RecordedCommand, 'program' | 'argv'> {
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Returns the line of a command in docs/compatibility/command-line.md. */
function lineOf({ program = 'salt', argv, config = {} }: ListedCommand): string {
  const isPlain = /^[A-Za-z0-9_.,=:/{}@-]+$/;
  const words = argv.map((word) => (isPlain.test(word) ? word : JSON.stringify(word)));
  const options = Object.entries(config).map(([name, value]) => `${name}: ${value}`);
  const note = options.length === 0 ? '' : `  # ${options.join(', ')}`;
  return `${[program, ...words].join(' ')}${note}`;
}

test('docs/compatibility/command-line.md lists the commands that are run beside a real master', (t) => {
  const page = readFileSync(
    new URL('../../docs/compatibility/command-line.md', import.meta.url),
    'utf8',
  );
  const listed = readCases<ListedCommand>('beside-salt.json').map(lineOf);
  t.is(listed.length, 60);
  t.true(page.includes(`\`\`\`text\n${listed.join('\n')}\n\`\`\`\n`));
});
