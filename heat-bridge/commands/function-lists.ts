/** What is known of a minion's function before anybody exposes it. */

import { compileGlob } from '#template/python/fnmatch.ts';

/**
 * Functions of Salt 3007's own modules that may be exposed without a word: they only read, or act
 * on one named thing; they neither run text as code, nor open paths or addresses that a caller
 * names. One a line, with the keywords that a command may give it; a keyword takes one word
 * (letters, digits and `_.:@%+~-`, no `/` and no blank), with `*` behind it any text. `**`: any
 * keywords with any text. docs/bridge.md says how the list was drawn up.
 */
export const reviewedFunctions = `
alternatives.display name
alternatives.show_current name
alternatives.show_link name
apache.fullversion
apache.modules
apache.servermods
apache.version
at.atq
beacons.list
btrfs.devices
btrfs.features
btrfs.version
disk.inodeusage
disk.percent
disk.usage
drbd.overview
firewalld.default_zone
firewalld.list_zones
firewalld.version
freezer.list
glusterfs.list_volumes
glusterfs.peer_status
grains.equals key* value*
grains.get key* default* delimiter*
grains.has_value key*
grains.items
grains.ls
group.getent
group.info name
hosts.get_alias ip*
hosts.get_ip host*
hosts.has_pair ip* alias*
hosts.list_hosts
iptables.version
key.finger
key.finger_master
kmod.available
kmod.check_available mod
kmod.is_loaded mod
kmod.lsmod
kmod.mod_list
locale.avail locale
locale.get_locale
locale.list_avail
lvm.fullversion
lvm.lvdisplay
lvm.pvdisplay
lvm.version
lvm.vgdisplay
memcached.status
mine.update
mine.valid
mount.active
mount.is_mounted name*
mount.swaps
mysql.db_create name
mysql.db_exists name
mysql.db_get name
mysql.db_list
mysql.db_tables name
mysql.get_master_status
mysql.get_slave_status
mysql.slave_lag
mysql.status
mysql.user_grants user host
mysql.user_info user host
mysql.user_list
mysql.version
network.active_tcp
network.arp
network.calc_net ip_addr* netmask*
network.convert_cidr cidr*
network.default_route
network.fqdns
network.get_fqdn
network.get_hostname
network.hw_addr iface
network.in_subnet cidr*
network.interface iface
network.interface_ip iface
network.interfaces
network.ip_addrs
network.ip_addrs6
network.ip_in_subnet ip_addr* cidr*
network.ip_neighs
network.ip_neighs6
network.ip_networks
network.ip_networks6
network.is_loopback ip_addr*
network.is_private ip_addr*
network.netstat
network.reverse_ip ip_addr*
network.routes
network.subnets
network.subnets6
nginx.build_info
nginx.version
pkg.list_pkgs
pkg.list_upgrades
pkg.refresh_db
pkg.version_cmp pkg1 pkg2
postgres.db_exists name
postgres.db_list
postgres.user_exists name
postgres.version
ps.boot_time
ps.cpu_percent interval
ps.cpu_times
ps.disk_io_counters
ps.disk_partition_usage
ps.disk_partitions
ps.get_pid_list
ps.get_users
ps.network_io_counters
ps.num_cpus
ps.swap_memory
ps.total_physical_memory
ps.virtual_memory
quota.stats
quota.warn
rabbitmq.cluster_status
rabbitmq.list_users
rabbitmq.list_vhosts
rabbitmq.status
rabbitmq.user_exists name
rabbitmq.vhost_exists name
raid.list
redis.dbsize
redis.info
redis.lastsave
redis.ping
saltutil.find_job jid
saltutil.is_running fun*
saltutil.list_extmods
saltutil.refresh_beacons
saltutil.refresh_grains
saltutil.refresh_modules
saltutil.refresh_pillar
saltutil.running
schedule.list
selinux.getconfig
selinux.getenforce
selinux.getsebool boolean
selinux.list_sebool
selinux.list_semod
service.available name
service.disable name
service.disabled name
service.enable name
service.enabled name
service.force_reload name
service.get_all
service.get_disabled
service.get_enabled
service.get_running
service.masked name
service.missing name
service.reload name
service.restart name
service.start name
service.status name
service.stop name
status.all_status
status.cpuinfo
status.cpustats
status.diskstats
status.diskusage
status.loadavg
status.meminfo
status.netdev
status.netstats
status.nproc
status.time
status.uptime
status.version
status.vmstats
status.w
sys.argspec module
sys.list_functions
sys.list_modules
sys.reload_modules
sysctl.get name
system.get_computer_desc
system.get_computer_name
system.get_system_date
system.get_system_date_time
system.get_system_time
system.has_settable_hwclock
test.arg **
test.collatz start
test.echo text*
test.exception message*
test.false
test.fib num
test.kwarg **
test.ping
test.rand_sleep max
test.rand_str size
test.retcode code
test.sleep length
test.true
test.version
test.versions_information
timezone.get_hwclock
timezone.get_offset
timezone.get_zone
timezone.get_zonecode
user.getent
user.info name
user.list_groups name
user.list_users
user.primary_group name
zfs.list_mount
zpool.healthy
`;

/**
 * Functions of Salt that run, fetch or write what they are handed, as globs, one or more a line.
 * A command that stands for one must say `unsafe: i-understand`. What is in neither list needs
 * `reviewed:`; no list of this kind is whole.
 */
export const unsafeFunctions = `
acme.*
ansible.*
ansiblegate.*
apf.*
archive.*
artifactory.*
at.at
aws_*
bigip.*
bower.*
cabal.*
cassandra*.cql_query*
chef.*
chocolatey.*
chroot.*
cloud.*
cmd.*
composer.*
config.*
consul.*
container_resource.*
cp.*
cpan.*
cron.raw_cron
cron.rm_*
cron.set_*
cron.write_cron*
cyg.*
debconf.set*
defaults.*
disk.dump
disk.format*
disk.hdparms
disk.iostat
disk.resize2fs
disk.tune
disk.wipe
docker.*
docker_*.*
dockercompose.*
dockermod.*
dsc.*
eix.*
elasticsearch.*_create
environ.*
esxcluster.*
esxi.*
etcd.*
event.*
file.*
gem.*
genesis.*
git.*
gpg.*
grafana*.*
hadoop.dfs
hashutil.*file*
heat.*
helm.*
hg.*
http.*
incron.*
influxdb*.query
inspector.*
iosconfig.*
jboss7*.*
jenkins.*
jinja.*
junos.*
k8s.*
kernelpkg.*
kubernetes.*
libcloud_*.*
logadm.*
lxc.*
lxd.*
macpackage.*
mandrill.*
marathon.*
mine.get
mine.send
minion.*
module.*
mongodb.*
mount.*mount
mount.set_*
mssql.tsql_query
mysql.file_query
mysql.plugin_add
mysql.query
nacl.*
napalm*.*
netmiko*.*
network.connect
nfs3.*
nftables.*
nix.*
npm.*
nspawn.*
nxos*.*
openscap.*
oracle.*
osquery.*
pam.*
parted*.*
partition.*
pear.*
pecl.*
peeringdb.*
pillar.*
pip.*
pkg.*_repo*
pkg.install
pkg.set_selections
pkg_resource.*
pkgbuild.*
postgres.*psql*
postgres.create_metadata
postgres.datadir_init
postgres.language_create
powerpath.*
proxy.*
psget.*
publish.*
puppet.*
pushbullet.*
pushover*.*
pyenv.*
rbenv.*
redis.*flush*
redis.config_set
redis.slaveof
reg.*
rest_*.*
restconf.*
restartcheck.*
rsync.*
rvm.*
s3.*
salt_proxy.*
salt_version.*
saltcheck.*
saltutil.cmd*
saltutil.mmodule
saltutil.runner
saltutil.sync_*
saltutil.update
saltutil.wheel
schedule.add
schedule.modify
schedule.run_job
scp.*
scsi.*
sdb.*
serverdensity_device.*
slack_notify.*
slsutil.*
smtp.*
snapper.*
solarisips.*
solrcloud.*
splunk*.*
sqlite3.*
ssh.*
state.*
statuspage.*
sudo.*
supervisord.custom
supervisord.options
svn.*
swift.*
syslog_ng.*
system_profiler.*
task.*
telegram.*
test.attr_call
test.cross_test
test.provider
test.try
textfsm_mod.*
transactional_update.*
travisci.*
tuned.*
udev.*
uwsgi.*
vagrant.*
vault.*
virt.*
virtualenv.*
vmctl.*
vsphere.*
win_*.*
winrepo.*
wua.*
x509*.*
xapi.*
xml.*
zabbix.*
zcbuildout.*
zk_concurrency.*
zoneadm.*
zonecfg.*
`;

/** Keywords that a reviewed function may be given. */
export interface ReviewedFunction {
  /** True: any, with any text. */
  readonly isOpen: boolean;
  /** By keyword: whether any text will do, or one word alone. */
  readonly keywords: ReadonlyMap<string, 'text' | 'word'>;
}

/** What a function is known for. */
export type FunctionReview =
  | { readonly kind: 'reviewed'; readonly reviewed: ReviewedFunction }
  | { readonly kind: 'unsafe' }
  | { readonly kind: 'unknown' };

/** Says of functions what the shipped lists say. */
export type FunctionReviews = (fun: string) => FunctionReview;

/** Reads the shipped lists. */
export function loadFunctionReviews(): FunctionReviews {
  const reviewed = new Map(linesOf(reviewedFunctions).map(parseReviewedLine));
  const unsafe = linesOf(unsafeFunctions).map((glob) => compileGlob(glob));
  return (fun) => {
    const known = reviewed.get(fun);
    if (known !== undefined) return { kind: 'reviewed', reviewed: known };
    return { kind: unsafe.some((means) => means(fun)) ? 'unsafe' : 'unknown' };
  };
}

/** A function of the reviewed list. */
export function reviewedFunctionOf(standing: FunctionReview): ReviewedFunction | undefined {
  return standing.kind === 'reviewed' ? standing.reviewed : undefined;
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function parseReviewedLine(line: string): [string, ReviewedFunction] {
  const [fun = '', ...words] = line.split(' ');
  const isOpen = words.includes('**');
  const keywords = words
    .filter((word) => word !== '**')
    .map((word) => [word.replace('*', ''), word.endsWith('*') ? 'text' : 'word'] as const);
  return [fun, { isOpen, keywords: new Map(keywords) }];
}
