/** The files of a master that has run with one minion, and copies of them. */
import { cpSync, lstatSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import type { MasterConfig } from '#config';
import { loadMasterConfig } from '#config';
import type { Master, MasterApi } from '#master';
import { createMinion, dialZeromq } from '#minion-protocol';
import { createMaster } from '#server';
import { layMasterKey, minionKeys } from '../../helpers/rsa-keys.ts';

/** Directory tree of one master. */
export interface Site {
  readonly root: string;
  /** Directory for the option `-c`. */
  readonly directory: string;
  readonly config: MasterConfig;
  /** Sets further options in the main file. */
  set(options: Readonly<Record<string, unknown>>): void;
  /** Connects to the master that uses this tree, if one is running. */
  readonly openApi: () => Promise<MasterApi>;
}

const base = { interface: '127.0.0.1', publish_port: 0, ret_port: 0 };

async function siteIn(root: string): Promise<Site> {
  const directory = path.join(root, 'etc/salt');
  mkdirSync(directory, { recursive: true });
  const set = (options: object): void => {
    // JSON is valid YAML.
    const text = JSON.stringify({ root_dir: root, ...base, ...options });
    writeFileSync(path.join(directory, 'master'), text);
  };
  set({});
  const { config } = await loadMasterConfig(directory);
  return {
    root,
    directory,
    config,
    set,
    openApi: async () => connectMaster({ socketPath: config.socket }),
  };
}

/** Runs a master once with one minion, in a new directory. */
export async function runOnce(): Promise<string> {
  const root = mkdtempSync(path.join(tmpdir(), 'saltbridge-test-'));
  const { config } = await siteIn(root);
  layMasterKey(config.pkiDir);
  const master = createMaster({ config: { ...config, autoAccept: true } });
  await master.start();
  const { requestPort } = await master.status();
  const transport = dialZeromq({ host: '127.0.0.1', requestPort });
  const minion = createMinion({
    id: 'web1',
    keys: minionKeys(0),
    transport,
    functions: {},
  });
  await minion.start();
  await minion.stop();
  await master.close();
  return root;
}

/** Copies the tree for one test. */
export async function copyOf(t: ExecutionContext, template: string): Promise<Site> {
  const root = mkdtempSync(path.join(tmpdir(), 'saltbridge-test-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const isSocket = (file: string): boolean => lstatSync(file).isSocket();
  cpSync(template, root, {
    recursive: true,
    preserveTimestamps: true,
    filter: (file) => !isSocket(file),
  });
  return siteIn(root);
}

/** Starts the master of a site. It is closed at the end of the test. */
export async function start(t: ExecutionContext, { config }: Site): Promise<Master> {
  const master = createMaster({ config });
  await master.start();
  t.teardown(() => master.close());
  return master;
}
