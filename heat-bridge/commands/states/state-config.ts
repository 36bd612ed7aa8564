/**
 * What a machine is to have: packages, accounts, archives, files, commands and services, in groups
 * that follow each other. Metadata of CloudFormation and `install:` of the catalog are two ways to
 * write it.
 */

import { BridgeError } from '../../errors.ts';

/** One group; its parts are applied in the order in which they stand here. */
export interface Config {
  readonly name: string;
  readonly packages: readonly PackageSet[];
  readonly groups: readonly Group[];
  readonly users: readonly User[];
  readonly archives: readonly Archive[];
  readonly files: readonly ConfigFile[];
  readonly commands: readonly Command[];
  readonly services: readonly Service[];
}

/** `native`: whatever the machine has. */
export type PackageManager =
  | 'apt'
  | 'dnf'
  | 'native'
  | 'python'
  | 'rpm'
  | 'rubygems'
  | 'yum'
  | 'zypper';

/** Packages of one manager, installed in one transaction where the manager has transactions. */
export interface PackageSet {
  readonly manager: PackageManager;
  readonly packages: readonly Package[];
}

export interface Package {
  readonly name: string;
  /** Of `rpm`: the address. Default: the newest, or the one that is installed. */
  readonly version?: string;
}

export interface Group {
  readonly name: string;
  readonly gid?: number;
}

/** A system user who cannot log in. */
export interface User {
  readonly name: string;
  readonly uid?: number;
  readonly groups: readonly string[];
  readonly home?: string;
}

export interface Archive {
  readonly directory: string;
  readonly url: string;
  readonly format: 'tar' | 'zip';
  /** SHA-256 as hex; without it the archive is not verified. */
  readonly sha256?: string;
}

export interface ConfigFile {
  readonly path: string;
  readonly content:
    | { readonly kind: 'bytes'; readonly bytes: Buffer }
    | { readonly kind: 'link'; readonly target: string }
    | { readonly kind: 'url'; readonly url: string };
  /** Octal digits. Of a link: of its target. */
  readonly mode?: string;
  readonly owner?: number | string;
  readonly group?: number | string;
  readonly selinux?: Readonly<Record<string, string>>;
}

export interface Command {
  readonly name: string;
  /** Text for the shell, or a program and its arguments. */
  readonly command: string | readonly string[];
  /** Replaces the environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Text for the shell: the command runs if it exits with 0. */
  readonly test?: string;
  readonly ignoreErrors: boolean;
}

export interface Service {
  readonly name: string;
  readonly enabled?: boolean;
  readonly running?: boolean;
  /** Restarts it where one of these has changed. */
  readonly restartOn: {
    readonly files: readonly string[];
    readonly archives: readonly string[];
    readonly commands: readonly string[];
    readonly packages: readonly {
      readonly manager: PackageManager;
      readonly names: readonly string[];
    }[];
  };
}

/** What cannot be applied. @param place - for whoever wrote it: `config web: files: /etc/motd` */
export function configError(place: string, problem: string): BridgeError {
  return new BridgeError('ERR_CFN_INIT', `${place}: ${problem}`);
}

/** Bounds of one run. */
export const configLimits = { states: 2_000, bytes: 4_194_304, tags: 100_000 } as const;
