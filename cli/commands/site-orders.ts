/**
 * `saltbridge site order`, `orders` and `tail`: jobs, commands and plans that a centre orders from
 * its sites.
 */

import type { Command } from 'commander';
import type { OrderInfo, OrderReport, OrderWork, SiteOrderInfo } from '#edge';
import { parseArguments } from '#master';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { type CommonOptions, parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';
import { parseGroupTarget, parseParameters } from './bridge.ts';

interface OrderOptions extends CommonOptions {
  /** Time for which the order is valid, in seconds. Default: one day. */
  readonly valid?: number;
  readonly wait?: boolean;
  /**
   * Compound target that the centre evaluates with the facts (grains) that its sites have reported.
   */
  readonly facts?: string;
}

interface TargetOptions extends OrderOptions {
  readonly target: string;
  readonly targetType?: string;
}

/** Adds `order`, `orders` and `tail` to `saltbridge site`. */
export function addOrders(site: Command, context: CommandContext): void {
  const order = site.command('order').description('issue an order to sites');
  addJob(order, context);
  addCommand(order, context);
  addPlan(order, context);
  addEnrol(order, context);
  addList(site, context);
  addTail(site, context);
}

function withOrderOptions(command: Command): Command {
  return withCommonOptions(
    command
      .option('--valid <seconds>', 'validity of the order in seconds (default: 86400)', parseCount)
      .option('--wait', 'print the results as they arrive, until the order has ended at all sites'),
  );
}

function withTargetOptions(command: Command): Command {
  return withOrderOptions(
    command
      .option(
        '-t, --target <target>',
        'minions at each site: a glob on ids, unless -T is given',
        '*',
      )
      .option('-T, --target-type <type>', 'target type, as in Salt: list, compound, …')
      .option(
        '--facts <target>',
        'compound target; the centre selects the minions by the grains that sites have reported; not allowed with -t',
      ),
  );
}

const sitesArgument = 'names of sites, globs on them, and rings (ring:NAME), separated by commas';

function addJob(order: Command, context: CommandContext): void {
  const job = order
    .command('job')
    .description('run a function on minions of the sites')
    .argument('<sites>', sitesArgument)
    .argument('<function>', 'function, as in salt: test.ping')
    .argument('[arguments...]', 'arguments of the function, as in salt');
  withTargetOptions(job).action(
    async (sites: string, fun: string, args: readonly string[], options: TargetOptions) => {
      const work = { kind: 'job', ...targetOf(options), fun, ...parseArguments(args) } as const;
      await issue(sites, work, options, context);
    },
  );
}

function addCommand(order: Command, context: CommandContext): void {
  const command = order
    .command('command')
    .description('run a named command from the catalog of the sites')
    .argument('<sites>', sitesArgument)
    .argument('<name>', 'name of the command')
    .option('-p, --params <json>', 'parameters, as a JSON object', parseParameters);
  withTargetOptions(command).action(
    async (sites: string, name: string, options: TargetOptions & { params?: object }) => {
      const work = { kind: 'command', name, ...targetOf(options), ...paramsOf(options) } as const;
      await issue(sites, work, options, context);
    },
  );
}

function addPlan(order: Command, context: CommandContext): void {
  const plan = order
    .command('plan')
    .description('run a plan that each site defines in its catalog')
    .argument('<sites>', sitesArgument)
    .argument('<name>', 'name of the plan')
    .option(
      '-g, --group <name=target>',
      'target of a group: a glob on ids, or ids separated by commas',
      parseGroupTarget,
    )
    .option('-p, --params <json>', 'parameters, as a JSON object', parseParameters);
  withOrderOptions(plan).action(
    async (
      sites: string,
      name: string,
      options: OrderOptions & {
        group?: Readonly<Record<string, string | string[]>>;
        params?: object;
      },
    ) => {
      const work = {
        kind: 'plan',
        name,
        groups: options.group ?? {},
        ...paramsOf(options),
      } as const;
      await issue(sites, work, options, context);
    },
  );
}

function addEnrol(order: Command, context: CommandContext): void {
  const enrol = order
    .command('enrol')
    .description(
      'make a site create an enrolment ticket for a machine; the result contains the ticket',
    )
    .argument('<sites>', sitesArgument)
    .argument('<minion>', 'id of the minion')
    .requiredOption('--project <name>', 'owner of the machine')
    .option(
      '--instance <id>',
      'id of the only instance that may use the ticket; default: any instance',
    )
    .option('--lifetime <seconds>', 'validity of the ticket in seconds', parseCount);
  withOrderOptions(enrol).action(
    async (
      sites: string,
      minion: string,
      options: OrderOptions & { project: string; instance?: string; lifetime?: number },
    ) => {
      const { project, instance, lifetime } = options;
      const work = {
        kind: 'enrol',
        minion,
        project,
        ...(instance === undefined ? {} : { instance }),
        ...(lifetime === undefined ? {} : { lifetimeSeconds: lifetime }),
      } as const;
      await issue(sites, work, options, context);
    },
  );
}

function targetOf({ target, targetType }: TargetOptions): { tgt: string; tgtType?: string } {
  return { tgt: target, ...(targetType === undefined ? {} : { tgtType: targetType }) };
}

function paramsOf({ params }: { readonly params?: object }): object {
  return params === undefined ? {} : { params };
}

async function issue(
  sites: string,
  work: Pick<OrderWork, 'kind'>,
  options: OrderOptions,
  context: CommandContext,
): Promise<void> {
  const { configDir, valid, wait, json, facts } = options;
  const client = await context.openExtension(configDir, 'site');
  const order = await client.call<OrderInfo>('order', {
    sites: sites.split(',').map((name) => name.trim()),
    work,
    ...(valid === undefined ? {} : { validSeconds: valid }),
    ...(facts === undefined ? {} : { facts }),
  });
  if (order.basis !== undefined && !json) {
    const { describeBasis } = await import('#edge');
    await printLine(context.stderr, escapeName(describeBasis(order.basis)));
  }
  if (wait) return tail(order.id, options, context);
  if (json) return printJson(context.stdout, order);
  await printLine(context.stdout, order.id);
}

function addList(site: Command, context: CommandContext): void {
  const list = site
    .command('orders')
    .description('list the orders of this centre, the latest first')
    .option('--limit <count>', 'maximum number of orders; default: 50', parseCount);
  withCommonOptions(list).action(
    async ({ configDir, json, limit }: CommonOptions & { limit?: number }) => {
      const client = await context.openExtension(configDir, 'site');
      const orders = await client.call<readonly OrderInfo[]>('orders', {
        ...(limit === undefined ? {} : { limit }),
      });
      await printList(context, orders, { json, format: formatOrder, none: 'No orders.' });
    },
  );
}

function addTail(site: Command, context: CommandContext): void {
  const follow = site
    .command('tail')
    .description('print the results of an order as they arrive')
    .argument('<order>', 'id that site order printed');
  withCommonOptions(follow).action((id: string, options: CommonOptions) =>
    tail(id, options, context),
  );
}

async function tail(
  id: string,
  { configDir, json }: CommonOptions,
  context: CommandContext,
): Promise<void> {
  const client = await context.openExtension(configDir, 'site');
  const printed = new Map<string, string>();
  let last: OrderReport | undefined;
  for await (const report of client.stream<OrderReport>('tail', { id })) {
    last = report;
    for (const site of json ? [] : report.sites) {
      const line = formatSite(site);
      if (printed.get(site.site) !== line) await printLine(context.stdout, line);
      printed.set(site.site, line);
    }
  }
  if (json && last !== undefined) await printJson(context.stdout, last);
  const { failed = 0, refused = 0, expired = 0 } = last?.counts ?? {};
  if (failed + refused + expired > 0) context.setExitCode(exitCodes.failure);
}

function formatOrder({ id, by, work, counts }: OrderInfo): string {
  const states = Object.entries(counts).filter(([, count]) => count > 0);
  const text = states.map(([state, count]) => `${count} ${state}`).join(', ');
  return escapeName(`${id} ${work.kind} by ${by}: ${text}`);
}

function formatSite(it: SiteOrderInfo): string {
  const { site, state, succeeded, failed, silent, unaddressed, reason, ticket } = it;
  const counts = Object.entries({ succeeded, failed, silent, unaddressed })
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`);
  const since = it.notReachedSince === undefined ? '' : new Date(it.notReachedSince).toISOString();
  const words = [
    ...(state === 'waiting'
      ? [since === '' ? 'never reached' : `not reached since ${since}`]
      : counts),
    ...(reason === undefined ? [] : [reason]),
    ...(ticket === undefined ? [] : [ticket]),
  ];
  return escapeName(`${site} ${state}${words.length === 0 ? '' : `: ${words.join(', ')}`}`);
}
