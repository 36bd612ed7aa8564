/**
 * `saltbridge site keys`, `push`, `hold`, `resume`, `rollback` and `releases`: signs bundles for
 * the sites and controls their release.
 */

import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import type { ExtensionClient } from '#client';
import type {
  KeyClaim,
  OnlineKeys,
  ProposedRelease,
  ReleaseState,
  RoleKey,
  RoleKeys,
  SigningKey,
} from '#edge';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { type CommonOptions, parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';

interface RotateOptions extends CommonOptions {
  readonly keys: string;
  readonly role: 'root' | 'targets' | 'online';
}

interface PushOptions extends CommonOptions {
  readonly key: string;
  readonly to?: number;
  readonly above?: number;
}

const rootKeyCount = 3;

/** Adds the subcommands for releases. */
export function addReleases(site: Command, context: CommandContext): void {
  const keys = site.command('keys').description('create and replace the keys that sign releases');
  addInit(keys, context);
  addRotate(keys, context);
  addPush(site, context);
  addRollback(site, context);
  addChange(
    site,
    context,
    'hold',
    'pause the release; sites that have not installed it keep their former release',
  );
  addChange(site, context, 'resume', 'continue a release, or begin its next ring');
  addList(site, context);
  addClaims(site, context);
}

function openCentre(context: CommandContext, configDir: string): Promise<ExtensionClient> {
  return context.openExtension(configDir, 'site');
}

function addInit(keys: Command, context: CommandContext): void {
  const init = keys
    .command('init')
    .description('create the offline keys of this centre: three root keys and one targets key')
    .argument('<directory>', 'new directory for the key files; move them to separate places');
  withCommonOptions(init).action(async (directory: string, { configDir, json }: CommonOptions) => {
    const { createRoot, createSigningKey } = await import('#edge');
    const client = await openCentre(context, configDir);
    if ((await client.call<string | null>('releases.root')) !== null) {
      const advice = 'to replace them, use `saltbridge site keys rotate`';
      throw new CommandError('ERR_ARGS', `this centre already has release keys; ${advice}`);
    }
    const centre = randomUUID();
    const root = Array.from({ length: rootKeyCount }, () => createSigningKey());
    const targets = createSigningKey();
    const files = await writeKeys(directory, centre, { root, targets: [targets] });
    const online = await client.call<OnlineKeys>('releases.onlineKeys', { areNew: false });
    const all = toRoleKeys(root, [targets], online);
    const bytes = await createRoot({ version: 1, centre, keys: all }, root, Date.now());
    await client.call('releases.setRoot', { root: bytes.toString('base64') });
    if (json) return printJson(context.stdout, { centre, files });
    for (const file of files) await printLine(context.stdout, file);
  });
}

function addRotate(keys: Command, context: CommandContext): void {
  const rotate = keys
    .command('rotate')
    .description(
      'replace the root keys, the targets key or the online keys; two of the current root keys must sign the change',
    )
    .argument('[directory]', 'new directory for the key files; not for the online keys')
    .requiredOption('--keys <directory>', 'directory with at least two of the root keys')
    .addOption(
      new Option('--role <role>', 'keys to replace')
        .choices(['root', 'targets', 'online'])
        .makeOptionMandatory(),
    );
  withCommonOptions(rotate).action(
    async (directory: string | undefined, options: RotateOptions) => {
      const { createRoot, createSigningKey, readRoot } = await import('#edge');
      const client = await openCentre(context, options.configDir);
      const text = await client.call<string | null>('releases.root');
      if (text === null) {
        const advice = 'create them with `saltbridge site keys init`';
        throw new CommandError('ERR_ARGS', `this centre has no release keys; ${advice}`);
      }
      const former = await readRoot(Buffer.from(text, 'base64'));
      const signers = await readKeys(options.keys, 'root', former.centre);
      const created = await createKeys(options.role, createSigningKey);
      if (options.role !== 'online' && directory === undefined) {
        throw new CommandError('ERR_ARGS', 'a directory for the new key files is required');
      }
      const online =
        options.role === 'online'
          ? await client.call<OnlineKeys>('releases.onlineKeys', { areNew: true })
          : undefined;
      const files =
        directory === undefined ? [] : await writeKeys(directory, former.centre, created);
      const publicKeys: RoleKeys = {
        root: publicOf(created.root) ?? former.keys.root,
        targets: publicOf(created.targets) ?? former.keys.targets,
        snapshot: online === undefined ? former.keys.snapshot : [online.snapshot],
        timestamp: online === undefined ? former.keys.timestamp : [online.timestamp],
      };
      const version = former.version + 1;
      const bytes = await createRoot(
        { version, centre: former.centre, keys: publicKeys },
        [...signers, ...created.root],
        Date.now(),
      );
      await client.call('releases.setRoot', { root: bytes.toString('base64') });
      if (options.json) return printJson(context.stdout, { version, files });
      for (const file of files) await printLine(context.stdout, file);
      await printLine(context.stdout, `root ${version}`);
    },
  );
}

function addPush(site: Command, context: CommandContext): void {
  const push = site
    .command('push')
    .description(
      'pack the files for the sites as a release, and publish it to one ring of sites after the other',
    )
    .requiredOption('--key <file>', 'key file of the role `targets`')
    .option(
      '--above <version>',
      'make the version of the release higher than <version>; necessary after the centre was restored from a backup',
      parseCount,
    );
  withCommonOptions(push).action((options: PushOptions) => release(context, options, undefined));
}

function addRollback(site: Command, context: CommandContext): void {
  const rollback = site
    .command('rollback')
    .description('publish the content of an earlier release as a new release, to all rings at once')
    .requiredOption('--key <file>', 'key file of the role `targets`')
    .option(
      '--to <version>',
      'number of the earlier release; default: the one before the latest published release',
      parseCount,
    );
  withCommonOptions(rollback).action(async (options: PushOptions) => {
    const client = await openCentre(context, options.configDir);
    const former = options.to ?? (await formerRelease(client));
    await release(context, options, former);
  });
}

async function formerRelease(client: ExtensionClient): Promise<number> {
  const releases = await client.call<readonly ReleaseState[]>('releases.list');
  const [, former] = releases.filter(({ state }) => state !== 'packed');
  if (former !== undefined) return former.version;
  throw new CommandError('ERR_ARGS', 'there is no earlier release');
}

async function release(
  context: CommandContext,
  { configDir, json, key: file, above }: PushOptions,
  contentOf: number | undefined,
): Promise<void> {
  const { decodeRoleKey, signTargets } = await import('#edge');
  const { key, role } = decodeRoleKey(await readFile(file, 'utf8'), file);
  const client = await openCentre(context, configDir);
  const parameters = {
    ...(contentOf === undefined ? {} : { contentOf }),
    ...(above === undefined ? {} : { above }),
  };
  const proposed = await client.call<ProposedRelease>('releases.propose', parameters);
  if (role !== 'targets' || !proposed.keys.includes(key.publicKey)) {
    throw new CommandError('ERR_ARGS', `${file} is not a targets key of this centre`);
  }
  for (const warning of proposed.warnings) await printLine(context.stderr, `warning: ${warning}`);
  const targets = await signTargets(Buffer.from(proposed.targets, 'base64'), [key]);
  const state = await client.call<ReleaseState>('releases.publish', {
    version: proposed.version,
    targets: targets.toString('base64'),
  });
  if (json) return printJson(context.stdout, state);
  await printLine(context.stdout, `${proposed.files} files, ${proposed.bytes} bytes`);
  await printLine(context.stdout, formatRelease(state));
}

function addChange(
  site: Command,
  context: CommandContext,
  name: 'hold' | 'resume',
  description: string,
): void {
  const command = site.command(name).description(description);
  withCommonOptions(command).action(async ({ configDir, json }: CommonOptions) => {
    const client = await openCentre(context, configDir);
    const state = await client.call<ReleaseState>(`releases.${name}`);
    if (json) return printJson(context.stdout, state);
    await printLine(context.stdout, formatRelease(state));
  });
}

function addList(site: Command, context: CommandContext): void {
  const releases = site.command('releases').description('list the releases of this centre');
  withCommonOptions(releases).action(async ({ configDir, json }: CommonOptions) => {
    const client = await openCentre(context, configDir);
    const states = await client.call<readonly ReleaseState[]>('releases.list');
    await printList(context, states, { json, format: formatRelease, none: 'No releases.' });
    if (states[0]?.state === 'stopped') context.setExitCode(exitCodes.failure);
  });
}

function addClaims(site: Command, context: CommandContext): void {
  const claims = site
    .command('claims')
    .description('list the minion keys that a site has accepted and that are not in any release')
    .argument('[name]', 'name of the site; default: all sites of this centre');
  withCommonOptions(claims).action(
    async (name: string | undefined, { configDir, json }: CommonOptions) => {
      const client = await openCentre(context, configDir);
      const found = await readClaims(client, name);
      await printList(context, found, { json, format: formatClaim, none: 'No claims.' });
    },
  );
}

function formatClaim({ site, id, fingerprint, at }: KeyClaim): string {
  return escapeName(`${site} ${id} ${fingerprint} ${new Date(at).toISOString()}`);
}

/**
 * Reads all claims of one site, or of all sites if `name` is undefined. A claim is a minion key
 * that a site has accepted but no release contains. The centre returns claims in pages.
 */
async function readClaims(
  client: ExtensionClient,
  name: string | undefined,
): Promise<readonly KeyClaim[]> {
  const found: KeyClaim[] = [];
  const query = name === undefined ? {} : { name };
  for (;;) {
    const last = found.at(-1);
    const after = last && { after: { site: last.site, id: last.id } };
    const page = await client.call<readonly KeyClaim[]>('releases.claims', { ...query, ...after });
    if (page.length === 0) return found;
    found.push(...page);
  }
}

function formatRelease({
  version,
  state,
  ring,
  createdAt,
  installed,
  failed,
}: ReleaseState): string {
  const time = new Date(createdAt).toISOString();
  const heading = `${version} ${state} ring ${ring}: ${installed} sites, ${failed.length} failed, ${time}`;
  const lines = failed.map(({ site, code, message }) => `  ${site} ${code} ${message}`);
  return [heading, ...lines].map(escapeName).join('\n');
}

interface NewKeys {
  readonly root: readonly SigningKey[];
  readonly targets: readonly SigningKey[];
}

async function createKeys(role: RotateOptions['role'], create: () => SigningKey): Promise<NewKeys> {
  return {
    root: role === 'root' ? Array.from({ length: rootKeyCount }, create) : [],
    targets: role === 'targets' ? [create()] : [],
  };
}

function publicOf(keys: readonly SigningKey[]): readonly string[] | undefined {
  return keys.length === 0 ? undefined : keys.map(({ publicKey }) => publicKey);
}

function toRoleKeys(
  root: readonly SigningKey[],
  targets: readonly SigningKey[],
  { snapshot, timestamp }: OnlineKeys,
): RoleKeys {
  return {
    root: root.map(({ publicKey }) => publicKey),
    targets: targets.map(({ publicKey }) => publicKey),
    snapshot: [snapshot],
    timestamp: [timestamp],
  };
}

/**
 * Writes keys to files of mode 0600 in a directory that contains no keys yet.
 * @throws CommandError ERR_ARGS
 */
async function writeKeys(
  directory: string,
  centre: string,
  { root, targets }: NewKeys,
): Promise<readonly string[]> {
  const [{ encodeRoleKey }, { makeDirectory, writeFileAtomically }] = await Promise.all([
    import('#edge'),
    import('#runtime'),
  ]);
  await makeDirectory(directory, 0o700);
  const named: readonly (readonly [string, RoleKey])[] = [
    ...root.map((key, index) => [`root-${index + 1}.json`, { role: 'root', centre, key }] as const),
    ...targets.map((key) => ['targets.json', { role: 'targets', centre, key }] as const),
  ];
  const present = await readdir(directory);
  const taken = named.find(([name]) => present.includes(name));
  if (taken !== undefined) {
    throw new CommandError('ERR_ARGS', `${path.join(directory, taken[0])} already exists`);
  }
  const files: string[] = [];
  for (const [name, key] of named) {
    const file = path.join(directory, name);
    await writeFileAtomically(file, encodeRoleKey(key), 0o600);
    files.push(file);
  }
  return files;
}

/**
 * Reads the centre's signing keys of a role from the files `ROLE-*` in a directory.
 * @throws CommandError ERR_ARGS if there are none; EdgeError ERR_BUNDLE_KEYS
 */
export async function readKeys(
  directory: string,
  role: RoleKey['role'],
  centre: string,
): Promise<readonly SigningKey[]> {
  const { decodeRoleKey } = await import('#edge');
  const keys: SigningKey[] = [];
  for (const name of (await readdir(directory)).filter((it) => it.startsWith(`${role}-`))) {
    const file = path.join(directory, name);
    const found = decodeRoleKey(await readFile(file, 'utf8'), file);
    if (found.role === role && found.centre === centre) keys.push(found.key);
  }
  if (keys.length > 0) return keys;
  throw new CommandError('ERR_ARGS', `${directory} contains no ${role} key of this centre`);
}
