/**
 * Parts of Salt that a configuration brings into use, by the option that does so: what they mean
 * here while the option is not served. One that is served needs no row.
 */
import type { MigrationOutcome } from './report.ts';

/** What to say of a part. */
export interface Advice {
  readonly outcome: MigrationOutcome;
  readonly meaning: string;
  readonly wayOut: string;
}

const fileServer = refused(
  'Minions get no files from this file server.',
  'Keep a salt-master for states, or let minions have their files locally (file_client: local).',
);
const gitFiles = refused(
  'No file server fetches from a repository.',
  'Check the repository out to a directory, by a timer or a hook, and name that in file_roots.',
);
const pillar = refused(
  "Salt's modules of external pillar are not asked; minion_files and minion_http are.",
  'Let a program write or serve the data of each minion for these two, or give createMaster a source of its own.',
);
const gitPillar = refused(
  'Pillar is not read from a repository.',
  'Check the repository out beside the master, by a timer or a hook, and name it in pillar_roots.',
);
const returner = refused(
  "Python returners do not run in the master; jobs and returns are in the master's own store.",
  'Follow the events or the returns with a program (saltbridge events, jobs.show), or give the minions the returner.',
);
const api = refused(
  'Of the HTTP interfaces, that of rest_cherrypy is served.',
  'Give rest_cherrypy these options, or keep salt-api beside a salt-master.',
);
const syndic = refused(
  'This master neither is nor has a syndic.',
  'Let the minions behind the syndic connect to this master themselves.',
);
const cluster = refused(
  'Masters do not share their state.',
  'Run one master, or keep the cluster of salt-masters.',
);
const runners = refused(
  'Runners and other Python code of the master do not run.',
  'Call what they call from a program that uses the library, or keep a salt-master for them.',
);
const ssh = ignored(
  'salt-ssh is a program of its own and reads this itself.',
  'Keep salt-ssh where it is installed; it needs no master.',
);
const windowsRepository = refused(
  'The repository of Windows packages is served through the file server.',
  'Keep it with the files: check it out where minions find it.',
);
const tuning = ignored('It tunes processes or caches that do not exist here.', 'Remove it.');

const byOption: ReadonlyMap<string, Advice> = new Map([
  ...rows(
    fileServer,
    'file_roots fileserver_backend master_roots minionfs_env minionfs_mountpoint minionfs_whitelist',
  ),
  ...rows(gitFiles, 'gitfs_remotes hgfs_remotes svnfs_remotes azurefs s3.buckets'),
  ...rows(pillar, 'ext_pillar on_demand_ext_pillar'),
  ...rows(gitPillar, 'git_pillar_root git_pillar_base git_pillar_branch'),
  ...rows(
    refused(
      'Encrypted pillar is not decrypted.',
      'Decrypt it in the program that provides the pillar, or let minions decrypt with their own sdb.',
    ),
    'decrypt_pillar pass_dir pass_gnupghome',
  ),
  ...rows(returner, 'master_job_cache ext_job_cache event_return runner_returns'),
  ...rows(
    ignored(
      'It narrows event_return, which is not served.',
      'Narrow the events where you read them.',
    ),
    'event_return_whitelist event_return_blacklist event_return_queue event_return_queue_max_seconds',
  ),
  ...rows(
    refused(
      'Engines are Python processes of salt-master and do not run.',
      'Run what they do as a program that follows the events (saltbridge events --json).',
    ),
    'engines',
  ),
  ...rows(
    refused('Thorium does not run.', 'Follow the events with a program and act there.'),
    'thorium_roots thorium_top thorium_interval',
  ),
  ...rows(
    refused('Salt has renamed it.', 'Call it publisher_acl, publisher_acl_blacklist.'),
    'client_acl client_acl_blacklist',
  ),
  ...rows(api, 'rest_tornado rest_wsgi'),
  ...rows(
    refused(
      'Minions may not publish to each other.',
      'Publish from a service instead; every request of a minion is answered with nothing.',
    ),
    'peer peer_run',
  ),
  ...rows(syndic, 'syndic_master order_masters syndic_failover'),
  ...rows(cluster, 'cluster_id cluster_peers cluster_pki_dir'),
  ...rows(
    runners,
    'runner_dirs module_dirs queue_dirs utils_dirs outputter_dirs extension_modules extmod_whitelist extmod_blacklist',
  ),
  ...rows(
    refused(
      'Tops files do not come from outside.',
      'Give minions a top.sls that names their states.',
    ),
    'master_tops external_nodes',
  ),
  ...rows(
    refused('Jobs of the master do not run by a schedule.', 'Start them from cron or a timer.'),
    'schedule',
  ),
  ...rows(
    refused(
      'Presence events are not fired.',
      'Ask jobs.plan or status who is connected; salt/auth and start events are fired.',
    ),
    'presence_events detect_remote_minions',
  ),
  ...rows(
    refused('Minions do not find this master by multicast.', 'Name the master in their files.'),
    'discovery',
  ),
  ...rows(
    refused(
      'TLS is not served.',
      'Put the master behind a tunnel, or keep it in a trusted network.',
    ),
    'ssl',
  ),
  ...rows(
    refused('Minions cannot push files.', 'Let them upload to a service of yours.'),
    'file_recv file_recv_max_size',
  ),
  ...rows(
    ignored(
      'Keys, jobs, grains and pillar are in pki_dir and in a store of our own.',
      'Nothing, unless another program reads the old cache.',
    ),
    'cache key_cache keys.cache_driver',
  ),
  ...rows(
    ignored(
      'The master runs as whoever starts it.',
      'Start it as this user; pki_dir and state_dir must be its own.',
    ),
    'user',
  ),
  ...rows(
    ignored('Limits of the process are those that it is started with.', 'Set LimitNOFILE.'),
    'max_open_files',
  ),
  ...rows(ssh, 'roster roster_file rosters roster_defaults ssh_user ssh_passwd ssh_minion_opts'),
  ...rows(windowsRepository, 'winrepo_remotes winrepo_remotes_ng winrepo_dir winrepo_dir_ng'),
  ...rows(
    tuning,
    'worker_threads con_cache pub_server_niceness mworker_niceness event_publisher_niceness sock_pool_size ipc_write_buffer',
  ),
]);

/** Options that say how a part is to work: the part's own option says what becomes of it. */
const families: readonly (readonly [begin: RegExp, part: string])[] = [
  [/^gitfs_/, 'gitfs'],
  [/^git_pillar_|^pillar_gitfs_/, 'git_pillar'],
  [/^(hgfs|svnfs|s3fs|azurefs|minionfs)_/, 'a file server'],
  [/^(fileserver|file_ignore|file_buffer|roots_update)/, 'the file server'],
  [/^(decrypt_)?pillar_|^pillarenv|^gpg_/, 'pillar'],
  [/^(thorium|reactor|syndic|winrepo|memcache)/, 'a part that is not served'],
  [/^(ssh|thin|min)_/, 'salt-ssh'],
  [/^log_(date|fmt|granular|rotate)/, "the log of Salt's own programs"],
];

/** What is known of the part that an option brings into use. */
export function adviceOf(option: string): Advice | undefined {
  const family = families.find(([begin]) => begin.test(option));
  return byOption.get(option) ?? (family && detailOf(family[1]));
}

function detailOf(part: string): Advice {
  return ignored(`It says how ${part} is to work.`, 'Remove it when that is settled.');
}

/** Of an option of Salt's that nothing more is known of. */
export const plainOption: Advice = ignored(
  'The option is not served and has no effect.',
  'Remove it, or see whether anybody relies on it.',
);

function refused(meaning: string, wayOut: string): Advice {
  return { outcome: 'refused', meaning, wayOut };
}

function ignored(meaning: string, wayOut: string): Advice {
  return { outcome: 'ignored', meaning, wayOut };
}

function rows(advice: Advice, options: string): [string, Advice][] {
  return options.split(' ').map((option) => [option, advice]);
}
