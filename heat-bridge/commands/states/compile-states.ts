/**
 * Compiles configs to Salt states. A config is one group of packages, files, services and other
 * content of a machine. docs/cfn-init.md has a table of the resulting states.
 */

import { MultiMap } from '#runtime';
import { commandText, testText } from './command-text.ts';
import { fileCalls } from './file-calls.ts';
import { families, packageCalls } from './package-calls.ts';
import {
  type Archive,
  type Command,
  type Config,
  type ConfigFile,
  configError,
  configLimits,
  type Group,
  type PackageSet,
  type Service,
  type User,
} from './state-config.ts';
import { type CompiledStates, StateBuilder, type StateReference } from './state-data.ts';

/**
 * Compiles configs to states.
 * @throws BridgeError ERR_CFN_INIT
 */
export function compileStates(configs: readonly Config[]): CompiledStates {
  const compiler = new Compiler(configs);
  for (const config of configs) compiler.add(config);
  return compiler.build();
}

/**
 * States that services can watch, by kind and name of their content, for example `files /etc/motd`.
 * If such a state makes changes, the services that watch it restart.
 */
class Changes {
  readonly #found = new MultiMap<string, StateReference>();

  add(kind: string, name: string, state: StateReference): void {
    this.#found.add(`${kind} ${name}`, state);
  }

  /** Returns the states of this kind with one of these names, without duplicates. */
  of(kind: string, names: readonly string[]): Iterable<StateReference> {
    const found = new Set<StateReference>();
    for (const name of new Set(names)) {
      for (const state of this.#found.get(`${kind} ${name}`)) found.add(state);
    }
    return found;
  }
}

class Compiler {
  readonly #builder = new StateBuilder();
  readonly #changes = new Changes();
  /**
   * Names of the groups in all configs. If a user has the name of a group, that group becomes the
   * user's primary group.
   */
  readonly #groups: ReadonlySet<string>;
  /** Total number of states that services watch. A state that two services watch counts twice. */
  #watched = 0;

  constructor(configs: readonly Config[]) {
    this.#groups = new Set(configs.flatMap(({ groups }) => groups.map(({ name }) => name)));
  }

  add(config: Config): void {
    const place = `config ${config.name}`;
    for (const it of config.packages) this.#packages(it, `${place}: packages`);
    for (const it of config.groups) this.#group(it, `${place}: groups`);
    for (const it of config.users) this.#user(it, `${place}: users`);
    for (const it of config.archives) this.#archive(it, `${place}: sources`);
    for (const it of config.files) this.#file(it, `${place}: files`);
    for (const it of config.commands) this.#command(it, `${place}: commands`);
    for (const it of config.services) this.#service(it, `${place}: services`);
  }

  build(): CompiledStates {
    return this.#builder.build();
  }

  #packages({ manager, packages }: PackageSet, place: string): void {
    const label = `${place}: ${manager}`;
    const family = families[manager];
    if (family !== undefined) this.#requireFamily(family, label);
    for (const call of packageCalls(manager, packages)) {
      const { names, ...rest } = call;
      const state = this.#builder.add({ ...rest, label: `${label}: ${names.join(', ')}` });
      for (const name of names) this.#changes.add(`packages ${manager}`, name, state);
    }
  }

  /**
   * Adds a state that fails on minions of another OS family. Without this state, a minion with apt
   * would try to install packages that are meant for yum.
   */
  #requireFamily(family: string, label: string): void {
    this.#builder.add({
      fun: 'test.fail_without_changes',
      args: {
        comment: `the minion has another package manager: its os_family is not ${family}`,
        unless: [{ fun: 'match.grain', tgt: `os_family:${family}` }],
      },
      label,
    });
  }

  /** Adds a group. An existing group is not changed. */
  #group({ name, gid }: Group, place: string): void {
    this.#builder.add({
      fun: 'group.present',
      args: {
        name,
        ...(gid === undefined ? {} : { gid }),
        unless: [{ fun: 'group.info', args: [name] }],
      },
      label: `${place}: ${name}`,
    });
  }

  /** Adds a user. An existing user is not changed. */
  #user({ name, uid, groups, home }: User, place: string): void {
    this.#builder.add({
      fun: 'user.present',
      args: {
        name,
        shell: '/sbin/nologin',
        createhome: false,
        remove_groups: false,
        groups: [...groups],
        ...(uid === undefined ? {} : { uid }),
        ...(home === undefined ? {} : { home }),
        ...(this.#groups.has(name) ? { gid: name } : {}),
        unless: [{ fun: 'user.info', args: [name] }],
      },
      label: `${place}: ${name}`,
    });
  }

  #archive({ directory, url, format, sha256 }: Archive, place: string): void {
    const state = this.#builder.add({
      fun: 'archive.extracted',
      args: {
        name: directory,
        source: url,
        archive_format: format,
        enforce_toplevel: false,
        overwrite: true,
        keep_source: false,
        ...(sha256 === undefined ? { skip_verify: true } : { source_hash: `sha256=${sha256}` }),
      },
      label: `${place}: ${directory}`,
    });
    this.#changes.add('archives', directory, state);
  }

  #file(file: ConfigFile, place: string): void {
    const label = `${place}: ${file.path}`;
    for (const call of fileCalls(file)) {
      this.#changes.add('files', file.path, this.#builder.add({ ...call, label }));
    }
  }

  #command(command: Command, place: string): void {
    const { name, env = {}, test } = command;
    // Put each variable into a map of its own: if a map in the list has several keys, Salt drops
    // the whole list.
    const variables = Object.entries(env).map(([variable, value]) => ({ [variable]: value }));
    const state = this.#builder.add({
      fun: 'cmd.run',
      args: {
        name: commandText(command),
        shell: '/bin/sh',
        ...(variables.length === 0 ? {} : { env: variables }),
        ...(test === undefined ? {} : { onlyif: [testText(command, test)] }),
      },
      label: `${place}: ${name}`,
    });
    this.#changes.add('commands', name, state);
  }

  #service({ name, enabled, running, restartOn }: Service, place: string): void {
    const label = `${place}: ${name}`;
    const watch = [
      ...this.#changes.of('files', restartOn.files),
      ...this.#changes.of('archives', restartOn.archives),
      ...this.#changes.of('commands', restartOn.commands),
      ...restartOn.packages.flatMap(({ manager, names }) => [
        ...this.#changes.of(`packages ${manager}`, names),
      ]),
    ];
    this.#watched += watch.length;
    if (this.#watched > configLimits.watched) {
      throw configError(
        label,
        `the services of the configuration watch more than ${configLimits.watched} states in total`,
      );
    }
    if (enabled !== undefined) {
      const fun = enabled ? 'service.enabled' : 'service.disabled';
      this.#builder.add({ fun, args: { name }, label });
    }
    if (running !== undefined) {
      const fun = running ? 'service.running' : 'service.dead';
      // Use separate states instead of the argument `enable`: Salt does not report a failure of
      // `enable` if it also restarts the service.
      this.#builder.add({ fun, args: { name }, label, watch: running ? watch : [] });
      return;
    }
    if (watch.length === 0) return;
    const args = { name: 'service.restart', m_name: name };
    this.#builder.add({ fun: 'module.wait', args, watch, label });
  }
}
