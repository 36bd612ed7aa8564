import type { Command } from 'commander';
import type { DeploymentInfo, StackDetails, StackInfo } from '#guests';
import type { CommandContext } from '../context.ts';
import { escapeName, printLine } from '../terminal.ts';
import { addRegistry } from './bridge-registry.ts';

/**
 * Defines `saltbridge bridge stack`, which manages the Heat stacks whose metadata the bridge reads.
 */
export function addStackCommands(bridge: Command, context: CommandContext): void {
  const { stdout, stderr } = context;
  const print = (info: StackInfo): Promise<void> => printLine(stdout, formatStack(info));
  addRegistry<StackInfo, StackDetails>(bridge, context, {
    name: 'stack',
    methods: 'stacks',
    noun: 'stack',
    page: 'docs/deployments.md',
    help: {
      all: 'manage Heat stacks whose software deployments the bridge runs',
      add: 'register a stack: its servers, minions and credentials',
      show: 'show a stack, its servers and its deployments, without secrets',
      remove: 'remove a stack; its deployments no longer run',
    },
    print,
    printDetails: async (details) => {
      await print(details);
      for (const followed of details.followed) await printLine(stdout, formatServer(followed));
      for (const one of details.deployments) await printLine(stdout, formatDeployment(one));
      for (const one of details.unclaimed) await printLine(stdout, formatUnclaimed(one));
    },
    printAdvice: async ({ unlisted }) => {
      if (unlisted.length === 0) return;
      const advice = 'list them under saltbridge: bridge: handles: endpoints';
      await printLine(
        stderr,
        `No requests are sent to ${unlisted.join(', ')}, because these addresses are not permitted: ${advice}.`,
      );
    },
  });
}

function formatStack({ name, stack, servers, minions, owner }: StackInfo): string {
  const what = stack === undefined ? '' : ` stack ${stack},`;
  const whose = owner === undefined ? '' : `, of ${owner}`;
  const counts = `${servers.length} servers, ${minions.length} minions`;
  return escapeName(`${name}:${what} ${counts}${whose}`);
}

function formatServer(status: StackDetails['followed'][number]): string {
  const { server, minion, problem, warnings = [] } = status;
  const problems = [...(problem === undefined ? [] : [problem]), ...warnings];
  const why = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
  return escapeName(`server ${server}: minion ${minion ?? 'not known yet'}${why}`);
}

function formatUnclaimed(signal: StackDetails['unclaimed'][number]): string {
  const { acceptedAt, alias, member, minion, state, reason } = signal;
  const tag = member === undefined ? `heat/${alias}` : `heat/${alias}/${member}`;
  const when = new Date(acceptedAt).toISOString();
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeName(`${when} signal ${tag} of ${minion} has no handle (${state})${why}`);
}

function formatDeployment({
  begunAt,
  name,
  action = '-',
  server,
  minion,
  command = '-',
  state,
  end,
  reason,
}: DeploymentInfo): string {
  const when = new Date(begunAt).toISOString();
  const how = end === undefined ? state : `${state} (${end})`;
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeName(`${when} ${name} ${action} ${server}/${minion} ${command} ${how}${why}`);
}
