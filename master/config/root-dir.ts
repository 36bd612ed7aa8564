import path from 'node:path';
import type { MasterConfig } from './options.ts';
import type { GivenOptions } from './settings.ts';

/** Puts every path below `root_dir`, as Salt does. [salt.config.apply_master_config] */
export function joinRootDir(config: MasterConfig, given: GivenOptions): MasterConfig {
  const root = path.resolve(config.rootDir);
  const join = (value: string): string => below(root, value);
  const joinOptional = (value: string | null): string | null => value && join(value);
  const isTooLong = config.sockDir.length > config.cachedir.length + 10;
  const sockDir = join(isTooLong ? `${config.cachedir}/.salt-unix` : config.sockDir);
  const isLogAddress = /^[a-z][a-z0-9+.-]*:/i.test(config.logFile);
  return {
    ...config,
    rootDir: root,
    confFile: path.resolve(config.confFile),
    pkiDir: join(config.pkiDir),
    cachedir: join(config.cachedir),
    sockDir,
    pidfile: join(config.pidfile),
    autosignFile: joinOptional(config.autosignFile),
    autorejectFile: joinOptional(config.autorejectFile),
    autosignGrainsDir: joinOptional(config.autosignGrainsDir),
    logFile: isLogAddress ? config.logFile : join(config.logFile),
    stateDir: join(config.stateDir),
    socket: given.own.has('socket') ? join(config.socket) : path.join(sockDir, config.socket),
  };
}

/** Absolute paths too, unless they are below already. [salt.config.prepend_root_dir] */
function below(root: string, value: string): string {
  const isBelow = value === root || value.startsWith(`${root}/`);
  return isBelow ? path.resolve(value) : path.join(root, value);
}
