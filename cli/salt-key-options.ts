/** The options of Salt's own `salt-key` [salt utils/parsers.py SaltKeyOptionParser]. */
import { type Command, Option } from 'commander';
import { configOption } from './common-options.ts';
import { addOutputOptions, type OutputCommandOptions } from './output-options.ts';

/** As commander names them. */
export interface SaltKeyOptions extends OutputCommandOptions {
  readonly configDir: string;
  readonly list?: string;
  readonly listAll?: boolean;
  readonly accept?: string;
  readonly acceptAll?: boolean;
  readonly reject?: string;
  readonly rejectAll?: boolean;
  readonly delete?: string;
  readonly deleteAll?: boolean;
  readonly print?: string;
  readonly printAll?: boolean;
  readonly finger?: string;
  readonly fingerAll?: boolean;
  readonly includeAll?: boolean;
  readonly includeAccepted?: boolean;
  readonly includeRejected?: boolean;
  readonly includeDenied?: boolean;
  readonly yes?: boolean;
  readonly genKeys?: string;
  readonly genKeysDir: string;
  readonly keysize: string;
  readonly genSignature?: boolean;
  readonly signaturePath?: string;
  readonly priv?: string;
  readonly pub?: string;
  readonly autoCreate?: boolean;
}

/** Adds them all, in the order in which they are explained. */
export function addSaltKeyOptions(command: Command): void {
  command
    .addOption(configOption())
    .option('-l, --list <state>', 'list keys: acc, pre (or un), rej, den, all')
    .option('-L, --list-all', 'list all keys; so it does when it is asked for nothing')
    .option('-a, --accept <glob>', 'accept pending keys')
    .option('-A, --accept-all', 'accept all pending keys')
    .option('-r, --reject <glob>', 'reject pending keys')
    .option('-R, --reject-all', 'reject all pending keys')
    .option('--include-all', 'also accepted keys when rejecting, rejected ones when accepting')
    .option('--include-accepted', 'also accepted keys when rejecting')
    .option('--include-rejected', 'also rejected keys when accepting')
    .option('--include-denied', 'also denied keys when accepting or rejecting')
    .option('-p, --print <glob>', 'show public keys')
    .option('-P, --print-all', 'show all public keys')
    .option('-d, --delete <glob>', 'delete keys')
    .option('-D, --delete-all', 'delete all keys')
    .option('-f, --finger <glob>', 'show fingerprints')
    .option('-F, --finger-all', 'show all fingerprints')
    .option('-y, --yes', 'do not ask')
    .option('--gen-keys <name>', 'make a key pair')
    .option('--gen-keys-dir <dir>', 'where to', '.')
    .option('--keysize <bits>', 'size of new keys', '2048')
    .option('--gen-signature', "sign the master's public key")
    .option('--signature-path <dir>', 'where to')
    .option('--priv <file>', 'the key to sign with')
    .option('--pub <file>', 'the key to sign')
    .option('--auto-create', 'make the key to sign with if there is none');
  addOutputOptions(command);
  command
    .option('-q, --quiet', 'without effect; as in Salt it silences only errors')
    .addOption(new Option('--rotate-aes-key <boolean>').hideHelp())
    .addOption(new Option('--preserve-minions <boolean>').hideHelp())
    .addOption(new Option('--log-level <level>').hideHelp());
}
