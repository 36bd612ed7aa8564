/**
 * Types of the desired content of a machine: ordered groups of packages, accounts, archives, files,
 * commands and services. The sources are metadata of CloudFormation and `install:` of the catalog.
 */

import { BridgeError } from '../../errors.ts';

/**
 * A config of cfn-init: a named group of desired packages, groups, users, files and so on. They are
 * applied in the order in which this type lists its fields.
 */
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

/** Package manager. `native` is the minion's own package manager. */
export type PackageManager =
  | 'apt'
  | 'dnf'
  | 'native'
  | 'python'
  | 'rpm'
  | 'rubygems'
  | 'yum'
  | 'zypper';

/** Packages of one manager, installed in one transaction if the manager supports it. */
export interface PackageSet {
  readonly manager: PackageManager;
  readonly packages: readonly Package[];
}

export interface Package {
  readonly name: string;
  /**
   * Version. For `rpm`, the URL of the package. Default: the installed version; if none is
   * installed, the newest one.
   */
  readonly version?: string;
}

export interface Group {
  readonly name: string;
  readonly gid?: number;
}

/** System user without login. */
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
  /** SHA-256 in hex. Without it, the archive is not verified. */
  readonly sha256?: string;
}

export interface ConfigFile {
  readonly path: string;
  readonly content:
    | { readonly kind: 'bytes'; readonly bytes: Buffer }
    | { readonly kind: 'link'; readonly target: string }
    | { readonly kind: 'url'; readonly url: string };
  /** Mode in octal digits. For a link, the mode of its target. */
  readonly mode?: string;
  readonly owner?: number | string;
  readonly group?: number | string;
  readonly selinux?: Readonly<Record<string, string>>;
}

export interface Command {
  readonly name: string;
  /** Text for the shell, or a program and its arguments. */
  readonly command: string | readonly string[];
  /** Variables that replace the whole environment of the command. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Shell text of a test. The command runs only if the test exits with 0. */
  readonly test?: string;
  readonly ignoreErrors: boolean;
}

export interface Service {
  readonly name: string;
  readonly enabled?: boolean;
  readonly running?: boolean;
  /** Changes after which the service is restarted. */
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

/**
 * Returns the error of an invalid config.
 * @param place - location for the author, for example `config web: files: /etc/motd`
 */
export function configError(place: string, problem: string): BridgeError {
  return new BridgeError('ERR_CFN_INIT', `${place}: ${problem}`);
}

/**
 * Limits of one run: number of states, bytes of file contents, number of rendered Mustache nodes
 * (`tags`), and number of states that all services watch.
 */
export const configLimits = {
  states: 2_000,
  bytes: 4_194_304,
  tags: 100_000,
  watched: 10_000,
} as const;
