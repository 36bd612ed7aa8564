/** `saltbridge site rehome`: moves sites to another centre by signed statements. */

import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import type {
  ImportedSite,
  NextCentre,
  SigningKey,
  SiteList,
  Statement,
  StatementInfo,
} from '#edge';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { type CommonOptions, parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';
import { readKeys } from './site-releases.ts';

interface OfferOptions extends CommonOptions {
  readonly url: readonly string[];
  readonly ca?: string;
  readonly behindProxy?: boolean;
}

interface SignOptions extends CommonOptions {
  readonly to: string;
  readonly keys: string;
  readonly after?: number;
  readonly now?: boolean;
  readonly days: number;
}

interface CosignOptions extends CommonOptions {
  readonly keys: string;
}

const defaultDays = 365;

/** Adds the subcommands of `saltbridge site rehome`, which move sites to another centre. */
export function addRehome(site: Command, context: CommandContext): void {
  const rehome = site.command('rehome').description('move sites of this centre to another centre');
  addOffer(rehome, context);
  addSign(rehome, context);
  addCosign(rehome, context);
  addPublish(rehome, context);
  addStatements(rehome, context);
  addExport(rehome, context);
  addImport(rehome, context);
}

function addOffer(rehome: Command, context: CommandContext): void {
  const offer = rehome
    .command('offer')
    .description(
      'print a description of this centre; another centre needs the description to move sites to this centre',
    )
    .requiredOption('--url <address...>', 'addresses of the HTTP API, in the order of the attempts')
    .option('--ca <file>', 'PEM file with the CA that issued the certificate of the HTTP API')
    .option(
      '--behind-proxy',
      'declare that TLS connections of the sites end at a proxy in front of this centre',
    );
  withCommonOptions(offer).action(async (options: OfferOptions) => {
    const { configDir, url, ca, behindProxy = false } = options;
    const client = await context.openExtension(configDir, 'site');
    const found = await client.call<NextCentre>('rehome.offer', {
      addresses: url,
      behindProxy,
      ...(ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }),
    });
    await printJson(context.stdout, found);
  });
}

function addSign(rehome: Command, context: CommandContext): void {
  const sign = rehome
    .command('sign')
    .description('sign a statement that moves sites of this centre to another centre')
    .argument('<sites...>', 'names of sites, and globs on them')
    .requiredOption(
      '--to <file>',
      'description that `site rehome offer` printed at the next centre',
    )
    .requiredOption('--keys <directory>', 'directory with root keys of this centre')
    .option(
      '--after <seconds>',
      'seconds without contact with this centre, after which a site tries the next centre',
      parseCount,
    )
    .option('--now', 'make the sites try the next centre as soon as they receive the statement')
    .option('--days <count>', 'validity of the statement in days', parseCount, defaultDays);
  withCommonOptions(sign).action(async (sites: readonly string[], options: SignOptions) => {
    const { maxStatementDays, parseNextCentre, writeStatement } = await import('#edge');
    const { configDir, to: file, keys, after, now = false, days } = options;
    if (now === (after !== undefined)) {
      throw new CommandError('ERR_ARGS', 'exactly one of --after and --now is required');
    }
    if (days > maxStatementDays) {
      throw new CommandError('ERR_ARGS', `--days: at most ${maxStatementDays}`);
    }
    const to = await parseNextCentre(await readFileOrStandardInput(file, context));
    const { centre, signers } = await readSigners(context, configDir, keys);
    const issuedAt = Date.now();
    const statement: Statement = {
      centre,
      sites: [...sites],
      issuedAt,
      expiresAt: issuedAt + days * 86_400_000,
      afterSeconds: after ?? 0,
      to,
    };
    const text = writeStatement(statement, signers);
    if (options.json) return printJson(context.stdout, { statement: text });
    await printLine(context.stdout, text);
  });
}

function addCosign(rehome: Command, context: CommandContext): void {
  const cosign = rehome
    .command('cosign')
    .description('add signatures to a statement about another centre, and print the statement')
    .argument('<file>', 'file with the statement; - reads it from standard input')
    .requiredOption('--keys <directory>', 'directory with root keys of this centre');
  withCommonOptions(cosign).action(async (file: string, options: CosignOptions) => {
    const { cosignStatement, readStatement } = await import('#edge');
    const text = (await readFileOrStandardInput(file, context)).trim();
    const { statement } = readStatement(text);
    await printLine(context.stderr, escapeName(describe(statement)));
    const { signers } = await readSigners(context, options.configDir, options.keys);
    const signed = cosignStatement(text, signers);
    if (options.json) return printJson(context.stdout, { statement: signed });
    await printLine(context.stdout, signed);
  });
}

/**
 * Returns the id of the running centre, and the private root keys of this centre from the files of
 * a directory.
 * @throws CommandError ERR_ARGS if the centre has no release keys, or the directory contains no
 * root key of this centre
 */
async function readSigners(
  context: CommandContext,
  configDir: string,
  directory: string,
): Promise<{ readonly centre: string; readonly signers: readonly SigningKey[] }> {
  const { readRoot } = await import('#edge');
  const client = await context.openExtension(configDir, 'site');
  const text = await client.call<string | null>('releases.root');
  if (text === null) {
    const advice = 'create them with `saltbridge site keys init`';
    throw new CommandError('ERR_ARGS', `this centre has no release keys; ${advice}`);
  }
  const { centre } = await readRoot(Buffer.from(text, 'base64'));
  return { centre, signers: await readKeys(directory, 'root', centre) };
}

function addPublish(rehome: Command, context: CommandContext): void {
  const publish = rehome
    .command('publish')
    .description(
      'store a signed statement about another centre, and send it to the sites that must move',
    )
    .argument('<file>', 'file with the statement; - reads it from standard input');
  withCommonOptions(publish).action(async (file: string, { configDir, json }: CommonOptions) => {
    const statement = (await readFileOrStandardInput(file, context)).trim();
    const client = await context.openExtension(configDir, 'site');
    const info = await client.call<StatementInfo>('rehome.publish', { statement });
    if (json) return printJson(context.stdout, info);
    await printLine(context.stdout, formatStatement(info));
  });
}

function addStatements(rehome: Command, context: CommandContext): void {
  const list = rehome
    .command('list')
    .description(
      'list the published statements about other centres, and which sites have received them',
    );
  withCommonOptions(list).action(async ({ configDir, json }: CommonOptions) => {
    const client = await context.openExtension(configDir, 'site');
    const found = await client.call<readonly StatementInfo[]>('rehome.statements');
    await printList(context, found, { json, format: formatStatement, none: 'No statements.' });
  });
}

function addExport(rehome: Command, context: CommandContext): void {
  const command = rehome
    .command('export')
    .description(
      'print a list of the sites of this centre and their public keys, for import at another centre',
    );
  withCommonOptions(command).action(async ({ configDir }: CommonOptions) => {
    const client = await context.openExtension(configDir, 'site');
    await printJson(context.stdout, await client.call<SiteList>('rehome.export'));
  });
}

function addImport(rehome: Command, context: CommandContext): void {
  const command = rehome
    .command('import')
    .description('accept the sites that another centre has exported')
    .argument('<file>', 'output of `site rehome export`; - reads it from standard input');
  withCommonOptions(command).action(async (file: string, { configDir, json }: CommonOptions) => {
    const { maxImportedSites, parseSiteList } = await import('#edge');
    const { centre, sites } = parseSiteList(await readFileOrStandardInput(file, context));
    const client = await context.openExtension(configDir, 'site');
    const results: ImportedSite[] = [];
    for (let index = 0; index < sites.length; index += maxImportedSites) {
      const some = sites.slice(index, index + maxImportedSites);
      const request = { centre, sites: some };
      results.push(...(await client.call<readonly ImportedSite[]>('rehome.import', request)));
    }
    if (json) await printJson(context.stdout, results);
    else {
      for (const { name, result, reason } of results) {
        const line = reason === undefined ? `${name} ${result}` : `${name} ${result}: ${reason}`;
        await printLine(context.stdout, escapeName(line));
      }
    }
    if (results.some(({ result }) => result === 'refused')) {
      context.setExitCode(exitCodes.failure);
    }
  });
}

function describe({ sites, to, afterSeconds, issuedAt, expiresAt }: Statement): string {
  const delay = afterSeconds === 0 ? 'at once' : `after ${afterSeconds} s without this centre`;
  const times = `${formatTime(issuedAt)} to ${formatTime(expiresAt)}`;
  return `${sites.join(' ')} to ${to.id} (${to.addresses.join(' ')}) ${delay}, ${times}`;
}

function formatStatement(info: StatementInfo): string {
  const { sites, to, addresses, afterSeconds, issuedAt, expiresAt, replies } = info;
  const delay = afterSeconds === 0 ? 'at once' : `after ${afterSeconds} s`;
  const heading = `${formatTime(issuedAt)} ${sites.join(' ')} to ${to} (${addresses.join(' ')}) ${delay}, until ${formatTime(expiresAt)}`;
  const lines = replies.map(({ site, state, reason }) =>
    ['', '', site, state, ...(reason === undefined ? [] : [reason])].join(' '),
  );
  return [heading, ...lines].map(escapeName).join('\n');
}

function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}
