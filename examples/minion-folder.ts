/** A minion with all its files below one folder, and a service manager of its own. */
import type { MinionConfig } from '#heat-bridge';

/** Returns options with which all files of a minion are below the folder. */
export function minionConfigIn(folder: string): MinionConfig {
  return {
    user: 'root',
    root_dir: folder,
    cachedir: `${folder}/cache`,
    sock_dir: `${folder}/s`,
    pidfile: `${folder}/minion.pid`,
    log_file: `${folder}/log`,
    log_level_logfile: 'info',
    enable_fqdns_grains: false,
    enable_gpu_grains: false,
  };
}

/**
 * Returns a script that replaces the program `service`. It starts the minion of `<folder>/salt` in
 * a new process group, and writes the number of the group to `<folder>/pid`.
 */
export function serviceScriptFor(folder: string): string {
  const pid = `${folder}/pid`;
  return `case "$2" in
status) kill -0 "$(cat ${pid})" ;;
restart)
  mkdir -p ${folder}/s
  setsid salt-minion -c ${folder}/salt >/dev/null 2>&1 &
  echo $! >${pid} ;;
esac`;
}
