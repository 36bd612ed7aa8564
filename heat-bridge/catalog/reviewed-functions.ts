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
