/** Calls of state functions that install packages. */

import type { JsonValue } from '#runtime';
import type { PackageManager, PackageSet } from './state-config.ts';

/** Required value of the minion's grain `os_family`, by package manager. */
export const families: Readonly<Partial<Record<PackageManager, string>>> = {
  apt: 'Debian',
  dnf: 'RedHat',
  yum: 'RedHat',
  zypper: 'Suse',
};

export interface PackageCall {
  readonly names: readonly string[];
  readonly fun: string;
  readonly args: Readonly<Record<string, JsonValue>>;
}

export function packageCalls(
  manager: PackageManager,
  packages: PackageSet['packages'],
): readonly PackageCall[] {
  const names = packages.map(({ name }) => name);
  switch (manager) {
    case 'rubygems':
      return packages.map(({ name, version }) => ({
        names: [name],
        fun: 'gem.installed',
        args: { name, ...(version === undefined ? {} : { version }) },
      }));
    case 'python':
      return packages.map(({ name, version }) => ({
        names: [name],
        fun: 'pip.installed',
        args: { name: version === undefined ? name : `${name}==${version}` },
      }));
    case 'rpm': {
      const sources = packages.map(({ name, version = '' }) => ({ [name]: version }));
      return [{ names, fun: 'pkg.installed', args: { sources } }];
    }
    default: {
      const pkgs = packages.map(({ name, version }) =>
        version === undefined ? name : { [name]: version },
      );
      return [{ names, fun: 'pkg.installed', args: { pkgs } }];
    }
  }
}
