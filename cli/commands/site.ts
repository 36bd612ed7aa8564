/** `saltbridge site`: joins sites to a centre and manages them. */

import type { Command } from 'commander';
import type { IssuedTicket, SiteDetails, SiteInfo } from '#edge';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { type CommonOptions, parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';
import { addInputs } from './site-inputs.ts';
import { addOrders } from './site-orders.ts';
import { addRehome } from './site-rehome.ts';
import { addReleases } from './site-releases.ts';
import { addSecrets } from './site-secrets.ts';

interface TicketOptions extends CommonOptions {
  readonly url?: string;
  readonly hours?: number;
}

/** Defines `saltbridge site`, which joins sites to a centre and manages them. */
export function defineSite(command: Command, context: CommandContext): void {
  addTicket(command, context);
  addJoin(command, context);
  addList(command, context);
  addShow(command, context);
  addRevoke(command, context);
  addReleases(command, context);
  addOrders(command, context);
  addInputs(command, context);
  addRehome(command, context);
  addSecrets(command, context);
}

function addTicket(site: Command, context: CommandContext): void {
  const ticket = site
    .command('ticket')
    .description('create a ticket for one site to join this centre')
    .argument('<name>', 'name of the site')
    .option('--url <address>', "address of this centre's HTTP API; default: this host and its port")
    .option('--hours <count>', 'validity of the ticket in hours; default: 24', parseCount);
  withCommonOptions(ticket).action(
    async (name: string, { configDir, json, url, hours }: TicketOptions) => {
      const client = await context.openExtension(configDir, 'site');
      const issued = await client.call<IssuedTicket>('ticket', {
        name,
        ...(url === undefined ? {} : { centre: url }),
        ...(hours === undefined ? {} : { lifetimeSeconds: hours * 3600 }),
      });
      if (json) return printJson(context.stdout, issued);
      await printLine(context.stdout, issued.ticket);
    },
  );
}

function addJoin(site: Command, context: CommandContext): void {
  const join = site
    .command('join')
    .description(
      'join the centre that issued the ticket, even while the master of this site is stopped',
    )
    .argument('<ticket>', 'ticket of the centre; - reads it from standard input');
  withCommonOptions(join).action(async (text: string, { configDir, json }: CommonOptions) => {
    const ticket = text === '-' ? await readFileOrStandardInput('-', context) : text;
    const receipt = await (await context.openSite(configDir)).join(ticket);
    if (json) return printJson(context.stdout, receipt);
    await printLine(context.stdout, `${receipt.name} has joined ${receipt.centre}`);
  });
}

function addList(site: Command, context: CommandContext): void {
  const list = site.command('list').description('list the sites of this centre');
  withCommonOptions(list).action(async ({ configDir, json }: CommonOptions) => {
    const client = await context.openExtension(configDir, 'site');
    const sites = await client.call<readonly SiteInfo[]>('list');
    await printList(context, sites, { json, format: formatSite, none: 'No sites.' });
  });
}

function addShow(site: Command, context: CommandContext): void {
  const show = site
    .command('show')
    .description('show a site')
    .argument('<name>', 'name of the site');
  withCommonOptions(show).action(async (name: string, { configDir, json }: CommonOptions) => {
    const client = await context.openExtension(configDir, 'site');
    const found = await client.call<SiteDetails>('show', { name });
    if (json) return printJson(context.stdout, found);
    await printLine(context.stdout, formatDetails(found));
  });
}

function addRevoke(site: Command, context: CommandContext): void {
  const revoke = site
    .command('revoke')
    .description('revoke the key of a site, and disconnect the site')
    .argument('<name>', 'name of the site');
  withCommonOptions(revoke).action(async (name: string, { configDir, json }: CommonOptions) => {
    const client = await context.openExtension(configDir, 'site');
    const revoked = await client.call<SiteInfo>('revoke', { name });
    if (json) return printJson(context.stdout, revoked);
    await printLine(context.stdout, formatSite(revoked));
  });
}

function formatSite(site: SiteInfo): string {
  const { name, state, isConnected, lastContactAt, version, release, from, to } = site;
  const contact = isConnected ? 'connected' : `last contact ${formatTime(lastContactAt)}`;
  const ofJoined = [
    ...[contact, ...(version === undefined ? [] : [version])],
    ...(release === undefined ? [] : [formatRelease(release)]),
  ];
  const words = [
    ...[name, state, ...(state === 'joined' ? ofJoined : [])],
    ...(from === undefined ? [] : [`rehomed from ${from.centre}`]),
    ...(to === undefined ? [] : [`to ${to.centre}`]),
  ];
  return escapeName(words.join(' '));
}

function formatRelease({ version, progress }: NonNullable<SiteInfo['release']>): string {
  const name = version === 0 ? 'no release' : `release ${version}`;
  return progress === undefined || progress === 'current' ? name : `${name} (${progress})`;
}

/** Returns a site as text. Each attribute has its own line. */
function formatDetails(site: SiteDetails): string {
  const { release, minions, waitingOrders } = site;
  const contact = `as of ${formatTime(site.lastContactAt)}`;
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['site', site.name],
    ['state', site.state],
    ['key', site.fingerprint],
    ['joined', site.joinedAt === undefined ? undefined : formatTime(site.joinedAt)],
    ['from', site.from && describeCentre(site.from)],
    ['to', site.to && describeCentre(site.to)],
    ['statement', site.statement && describeStatement(site.statement)],
    [
      'ticket to',
      site.ticketExpiresAt === undefined ? undefined : formatTime(site.ticketExpiresAt),
    ],
    ['connected', connectionOf(site)],
    ['contact', formatTime(site.lastContactAt)],
    ['address', site.address && `${site.address}, ${contact}`],
    ['version', site.version && `${site.version}, ${contact}`],
    [
      'clock',
      site.clockDifferenceMs === undefined
        ? undefined
        : `${site.clockDifferenceMs} ms ahead, ${contact}`,
    ],
    ['release', release && `${formatRelease(release)}, as of ${formatTime(release.at)}`],
    ['refused', release?.failed && formatFailure(release.failed)],
    [
      'minions',
      `${minions.present} present, ${minions.absent} absent, as of ${formatTime(minions.latestAt)}`,
    ],
    ['orders', `${waitingOrders} wait for the site`],
    ...Object.entries(site.log).map(([name, position]) => {
      const { sequence, ms, dropped, refused } = position;
      const counts = `${sequence} entries, ${dropped} dropped, ${refused} refused`;
      return [name, `${counts}, as of ${formatTime(ms)}`] as const;
    }),
  ];
  return rows
    .flatMap(([name, text]) =>
      text === undefined ? [] : [`${name.padEnd(10)}${escapeName(text)}`],
    )
    .join('\n');
}

function formatFailure(failed: { version: number; code: string; message: string }): string {
  return `release ${failed.version}: ${failed.code} ${failed.message}`;
}

function describeCentre({ centre, at }: { readonly centre: string; readonly at?: number }): string {
  return at === undefined ? centre : `${centre}, rehomed ${formatTime(at)}`;
}

function describeStatement({
  to,
  afterSeconds,
  state,
}: NonNullable<SiteInfo['statement']>): string {
  return `${state}: to ${to} ${afterSeconds === 0 ? 'at once' : `after ${afterSeconds} s`}`;
}

function formatTime(ms: number | undefined): string {
  return ms === undefined ? 'never' : new Date(ms).toISOString();
}

function connectionOf({ isConnected, member }: Pick<SiteInfo, 'isConnected' | 'member'>): string {
  if (!isConnected) return 'no';
  return member === undefined ? 'yes' : `yes, to the member ${member}`;
}
