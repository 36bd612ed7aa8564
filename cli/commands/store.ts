import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import type { TransferReceipt } from '#cluster';
import { readBackup, type StoreInspection } from '#store';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import type { StoreAccess } from '../offline-master.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface StoreOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Defines `saltbridge store`, with operations on the whole store of a master. */
export function defineStore(command: Command, context: CommandContext): void {
  withCommonOptions(
    command
      .command('backup')
      .description('write a backup of the store, even while the master is running')
      .argument(
        '<target>',
        'new file, or a directory in which to create a file named after the time',
      ),
  ).action((target: string, options: StoreOptions) => backUp(target, options, context));
  withCommonOptions(
    command
      .command('restore')
      .description('replace the store of a stopped master with a backup')
      .argument('<file>', 'the backup'),
  ).action((file: string, options: StoreOptions) => restore(file, options, context));
  withCommonOptions(
    command
      .command('check')
      .description('read the whole store or a backup, and report errors')
      .argument('[file]', 'a backup (default: the store)'),
  ).action((file: string | undefined, options: StoreOptions) =>
    file === undefined ? checkStore(options, context) : checkBackup(file, options, context),
  );
  withCommonOptions(
    command.command('info').description('show the contents of the store and its size'),
  ).action((options: StoreOptions) => showInfo(options, context));
  const move = (
    usage: string,
    description: string,
    argument: readonly [name: string, what: string],
    work: (access: StoreAccess, given: string) => Promise<TransferReceipt>,
  ): Command =>
    withCommonOptions(
      command
        .command(usage)
        .description(description)
        .argument(...argument),
    ).action(async (given: string, options: StoreOptions) => {
      const access = await context.openStore(options.configDir);
      await tellTransfer(await work(access, given), options, context);
    });
  move(
    'export',
    'export the store, keys and files of a master into a new directory',
    ['<target>', 'new directory to create; the master may be running'],
    (access, target) => access.export(target),
  );
  move(
    'import',
    'create a new master, or the first member of a new cluster, from an export',
    ['<directory>', 'directory that store export has written'],
    (access, directory) => access.import(directory),
  );
  move(
    'copy',
    'create a new master from the directories of another, stopped master',
    ['<config>', 'configuration directory of the stopped master'],
    (access, directory) => access.copy(directory),
  );
}

async function tellTransfer(
  receipt: TransferReceipt,
  { json }: StoreOptions,
  { stdout }: CommandContext,
): Promise<void> {
  if (json) {
    await printJson(stdout, receipt);
    return;
  }
  const { directory, content, files, cluster } = receipt;
  const lines = [
    `directory  ${escapeName(directory)}`,
    `content    ${content.entries} entries, ${content.records} records, ${files} files`,
    `digest     ${content.sha256}, equal for source and copy`,
    ...(cluster === undefined
      ? []
      : [
          `cluster    ${escapeName(cluster.name)} created with member ${escapeName(cluster.member)}`,
          `secret     ${escapeName(cluster.secretFile)}; store a copy outside of the cluster`,
        ]),
  ];
  await printLine(stdout, lines.join('\n'));
}

async function backUp(
  target: string,
  { configDir, json }: StoreOptions,
  { openStore, stdout }: CommandContext,
): Promise<void> {
  const receipt = await (await openStore(configDir)).backup(target);
  const { file, bytes, position } = receipt;
  const until = position === undefined ? '' : `, up to position ${position} of the log`;
  if (json) await printJson(stdout, receipt);
  else await printLine(stdout, `${escapeName(file)} (${bytes} bytes)${until}`);
}

async function restore(
  file: string,
  { configDir, json }: StoreOptions,
  { openStore, stdout }: CommandContext,
): Promise<void> {
  const { restored, old } = await (await openStore(configDir)).restore(file);
  if (json) {
    await printJson(stdout, { restored, old: old ?? null });
    return;
  }
  await printLine(
    stdout,
    `restored ${countEntries(restored)} entries; every minion must sign in again`,
  );
  if (old !== undefined) await printLine(stdout, `the previous store is in ${escapeName(old)}`);
}

async function checkStore(
  { configDir, json }: StoreOptions,
  { openStore, stdout, setExitCode }: CommandContext,
): Promise<void> {
  const found = await (await openStore(configDir)).inspect();
  const { problems } = found;
  if (problems.length > 0) setExitCode(exitCodes.failure);
  if (json) {
    await printJson(stdout, found);
    return;
  }
  for (const problem of problems) await printLine(stdout, escapeName(problem));
  if (problems.length === 0) await printLine(stdout, `${countEntries(found)} entries, no errors`);
}

async function checkBackup(
  file: string,
  { json }: StoreOptions,
  { stdout }: CommandContext,
): Promise<void> {
  const bytes = await readBackup(file);
  if (json) await printJson(stdout, { bytes, problems: [] });
  else await printLine(stdout, `${bytes} bytes, unchanged`);
}

async function showInfo(
  { configDir, json }: StoreOptions,
  { openStore, stdout }: CommandContext,
): Promise<void> {
  const access = await openStore(configDir);
  const { layout, revision, entries, records } = await access.inspect();
  const { size } = await stat(path.join(access.directory, 'data.mdb'));
  const info = { directory: access.directory, bytes: size, layout, revision, entries, records };
  if (json) {
    await printJson(stdout, info);
    return;
  }
  const lines = [
    `directory  ${escapeName(info.directory)}`,
    `size       ${size} bytes`,
    `layout     ${layout}`,
    `revision   ${revision}`,
    ...Object.entries(entries).map(([name, count]) => `entries    ${escapeName(name)}: ${count}`),
    ...(records === 0 ? [] : [`records    ${records}`]),
  ];
  await printLine(stdout, lines.join('\n'));
}

function countEntries({ entries }: StoreInspection): number {
  return Object.values(entries).reduce((sum, count) => sum + count, 0);
}
