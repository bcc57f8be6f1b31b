# ruff: noqa: E501 (lines of traces stand as they do in files)
"""One small, valid file of every format, with what it must become."""

from __future__ import annotations

SWF = b"""; Version: 2.2
; Computer: a machine
; MaxProcs: 64 (dual CPU)
;   continued text
    1    0   5  100   4   98.5 1024   4   200 1048576  1  7 2 3 1 1 -1 -1
    2   10  -1   50  -1     -1   -1   8    -1      -1  0 -1 -1 -1 -1 -1 1 30
    3   20   0    0   4     -1   -1   4   100      -1  5  7 2 3 1 1 -1 -1
; a line of the header in the middle

    4   30   0   10   0     -1   -1  -1   100      -1  1  7 2 3 1 1 -1 -1
    5   40   0   10   2     -1   -1   2   100      -1  2  7 2 3 1 1 -1 -1
    6   40   0   -1   2     -1   -1   2   100      -1 -1  7 2 3 1 1 -1 -1
"""

PHILLY_PCS = b"""app_id,submit_time,service,num_jobs,sleep_time,model_name
0,0.0,16482.5,1,0.0,TransformerModel256
1,6.0,16602.0,4,6.0,VggnetModel256
#2,7.0,1.0,1,1.0,VggnetModel256
3,9.0,100.0,8,3.0,TransformerModel256
"""

PHILLY_JOBS = b"""timestamp,duration,num_gpus,gpu_time,cluster
2017-09-04 10:30:41,2240194.0,8,17921552.0,7f04ca
2017-09-04 10:30:51,60.0,1,60.0,11cb48
2017-09-04 10:31:41,0.0,1,0.0,11cb48
"""

OPENB = b"""name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,460,,LS,Running,0,500,100
openb-pod-0001,6000,12288,2,1000,V100M16|V100M32,BE,Succeeded,427061,427161,427061
openb-pod-0002,4000,2048,0,0,,BE,Failed,427070,427080,427075
openb-pod-0003,4000,2048,0,0,,BE,Pending,427071,427080,
"""

OPENB_WITHOUT_TIMES = b"""name,cpu_milli,memory_mib,num_gpu,gpu_milli
openb-pod-0000,12000,16384,1,1000
"""

EVA = b"""job_id,task_id,workload_variant,arrival_time_s,duration_s,instance_family,gpus,cpus,ram_gib,init_delay_s
0,0,resnet18[0],960,12430,any,2,12,16,80
1,1,diamond[0],2438,15276,any,0,6,12,160.5
"""

SACCT = b"""JobIDRaw|JobID|User|Submit|Start|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|AllocTRES|State|Partition
100|100|ada|2024-03-01T09:30:00|2024-03-01T09:31:00|3600|120|8|8|billing=8,cpu=8,gres/gpu=2,mem=32G,node=1|COMPLETED|gpu
100.batch|100.batch||2024-03-01T09:31:00|2024-03-01T09:31:00|3600||8|8|cpu=8,mem=32G|COMPLETED|
101|101|bob|2024-03-01T09:30:30|None|0|UNLIMITED|0|4||CANCELLED by 1000|cpu
102|102|bob|2024-03-01T09:40:00|2024-03-01T09:40:00|60|UNLIMITED|4|4|cpu=4,mem=512M,node=1|TIMEOUT|cpu
103|103|bob|2024-03-01T09:41:00|Unknown|0|10|0|4||PENDING|cpu
"""

CSV = b"""job_id,submit_s,run_s,max_units,min_units,curve,user,estimate_s,gpu,grace_s,priority,colour,mark
a,5,10.5,2,,amdahl:0.05,ada,,1,30,,red,1
b,0,4,1,1,,,60,,,-2,blue,2.5
"""

TEXTS: dict[str, bytes] = {
    "swf": SWF,
    "philly-pcs": PHILLY_PCS,
    "philly-jobs": PHILLY_JOBS,
    "openb": OPENB,
    "eva": EVA,
    "sacct": SACCT,
    "csv": CSV,
}
