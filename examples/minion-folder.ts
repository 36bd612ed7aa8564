/** A minion whose files are all below one folder, as a service of a service manager of its own. */
import type { MinionConfig } from '#heat-bridge';

/** Options that keep a minion below the folder. */
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
 * A script in the place of `service`, which starts the minion of `<folder>/salt` in a process group
 * of its own; the group's number is in `<folder>/pid`.
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
