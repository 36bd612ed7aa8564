import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import type { DefineCommand } from './define-command.ts';

/** A command of the program. Its module is loaded when it is needed. */
interface Subcommand {
  readonly name: string;
  readonly summary: string;
  /** Text after the name of the command in the program's help. */
  readonly usage?: string;
  readonly load: () => Promise<DefineCommand>;
}

/** All commands of the program, in the order of the help. */
const subcommands: readonly Subcommand[] = [
  {
    name: 'master',
    usage: '[options]',
    summary: 'run a master',
    load: async () => (await import('./commands/master.ts')).defineMaster,
  },
  {
    name: 'key',
    summary: 'manage the keys of minions',
    load: async () => (await import('./commands/key.ts')).defineKey,
  },
  {
    name: 'enroll',
    summary: 'enrol machines as minions without an operator',
    load: async () => (await import('./commands/enroll.ts')).defineEnroll,
  },
  {
    name: 'salt',
    usage: '[options] [tgt] [fun] [args...]',
    summary: 'run a function on minions',
    load: async () => (await import('./commands/salt.ts')).defineSalt,
  },
  {
    name: 'salt-cp',
    usage: '[options] [tgt] [files...]',
    summary: 'copy files to minions',
    load: async () => (await import('./commands/salt-cp.ts')).defineSaltCp,
  },
  {
    name: 'salt-key',
    usage: '[options]',
    summary: "manage the keys of minions, with Salt's options; works without a running master",
    load: async () => (await import('./commands/salt-key.ts')).defineSaltKey,
  },
  {
    name: 'salt-run',
    usage: '[options] [fun] [args...]',
    summary: 'run a runner function on the master',
    load: async () => (await import('./commands/salt-run.ts')).defineSaltRun,
  },
  {
    name: 'jobs',
    summary: 'show jobs and their returns',
    load: async () => (await import('./commands/jobs.ts')).defineJobs,
  },
  {
    name: 'events',
    usage: '[options] [pattern]',
    summary: 'print events of the event bus as they are published',
    load: async () => (await import('./commands/events.ts')).defineEvents,
  },
  {
    name: 'status',
    usage: '[options]',
    summary: 'show the state of the running master',
    load: async () => (await import('./commands/status.ts')).defineStatus,
  },
  {
    name: 'store',
    summary: 'back up, restore, move and check the store of a master',
    load: async () => (await import('./commands/store.ts')).defineStore,
  },
  {
    name: 'cluster',
    summary: 'manage a cluster: masters on several machines that share a store',
    load: async () => (await import('./commands/cluster.ts')).defineCluster,
  },
  {
    name: 'site',
    summary: 'join sites to a centre and manage them',
    load: async () => (await import('./commands/site.ts')).defineSite,
  },
  {
    name: 'acl',
    summary: 'inspect and reload the policy',
    load: async () => (await import('./commands/acl.ts')).defineAcl,
  },
  {
    name: 'pillar',
    summary: 'render the pillar of a minion',
    load: async () => (await import('./commands/pillar.ts')).definePillar,
  },
  {
    name: 'audit',
    summary: 'read and verify the audit log',
    load: async () => (await import('./commands/audit.ts')).defineAudit,
  },
  {
    name: 'token',
    summary: 'list and revoke tokens of users',
    load: async () => (await import('./commands/token.ts')).defineToken,
  },
  {
    name: 'reactions',
    summary: 'show reactions and their runs',
    load: async () => (await import('./commands/reactions.ts')).defineReactions,
  },
  {
    name: 'bridge',
    summary: 'use the bridge: catalog, plans, handles, stacks and data spaces',
    load: async () => (await import('./commands/bridge.ts')).defineBridge,
  },
  {
    name: 'config',
    summary: 'check or show the configuration of a master',
    load: async () => (await import('./commands/config.ts')).defineConfig,
  },
  {
    name: 'heat',
    summary: 'compile Heat templates whose machines write values for each other',
    load: async () => (await import('./commands/heat.ts')).defineHeat,
  },
  {
    name: 'localclient',
    summary: "serve Salt's own clients (LocalClient, salt) on this host",
    load: async () => (await import('./commands/localclient.ts')).defineLocalClient,
  },
  {
    name: 'metadata-agent',
    usage: '[options]',
    summary: 'run the metadata agent, which answers metadata requests of instances',
    load: async () => (await import('./commands/metadata-agent.ts')).defineMetadataAgent,
  },
  {
    name: 'migrate',
    summary: 'prepare the migration from salt-master',
    load: async () => (await import('./commands/migrate.ts')).defineMigrate,
  },
  {
    name: 'doctor',
    usage: '[options]',
    summary: 'check the configuration, files and machine of a master; changes nothing',
    load: async () => (await import('./commands/doctor.ts')).defineDoctor,
  },
  {
    name: 'minion',
    usage: '[options]',
    summary: 'run a small minion for experiments, with a few functions',
    load: async () => (await import('./commands/minion.ts')).defineMinion,
  },
  {
    name: 'completion',
    summary: 'print a completion script for a shell',
    load: async () => (await import('./commands/completion.ts')).defineCompletion,
  },
  {
    name: 'demo',
    summary: 'demonstrate saltbridge with a master and three minions; leaves no files',
    load: async () => (await import('./commands/demo.ts')).defineDemo,
  },
];

/** Returns the text about options and arguments of a command, for the program's help. */
export function usageOf(name: string): string | undefined {
  return subcommands.find((it) => it.name === name)?.usage;
}

/** Adds all commands to a program. Loads only the modules of commands that `isCalled` selects. */
export async function addSubcommands(
  program: Command,
  context: CommandContext,
  isCalled: (name: string) => boolean,
): Promise<void> {
  const loadAll = async (): Promise<Command> => {
    const complete = program.createCommand(program.name()).copyInheritedSettings(program);
    await addSubcommands(complete.description(program.description()), context, () => true);
    return complete;
  };
  for (const { name, summary, load } of subcommands) {
    const command = program.command(name).description(summary);
    if (!isCalled(name)) continue;
    const define = await load();
    define(command, context, loadAll);
  }
}
